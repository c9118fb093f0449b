"""`bloomery verify`: the command line of `monitoring.verify_run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Verify a run from its published model back to its sources.", add_completion=False)


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="Folder of the run, such as runs/sample.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result of each check as one JSON document on stdout.")
    ] = False,
) -> None:
    """Read every file of a run's chain and compare it with its recorded digest. Name the first file that differs.

    The chain: published model and logs, exported model with its parity, checkpoint, segments, configuration, reports,
    index and samples, token files, tokenizer, mixture, shards, sources, and the order in which they were made.
    """
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.verify_run import verify_run

    check_run(run)
    links = verify_run(RunPaths(run))
    if as_json:
        print(dump_json([asdict(link) for link in links]), end="")
        return
    columns = ("verified", "files", "not present, not verified")
    rows = [[link.name, f"{link.files:,}", f"{link.not_present:,}"] for link in links]
    print_table(columns, rows, title=run.as_posix())
    for link in links:
        if link.note:
            say(f"{link.name}: {link.note}")
