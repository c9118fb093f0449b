"""`bloomery sync`: the command line of `monitoring.sync_run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Push the logs of a run to a Hub once.", add_completion=False)


@app.command()
def sync(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    result: Annotated[
        Path | None,
        typer.Option(
            help="File that records the run's last sync (runs/<name>/results/logs.json). With this option, a report is "
            "written to runs/<name>/published/logs.json. If no Hub is configured, a copy of the logs is written beside "
            "the report."
        ),
    ] = None,
    wait_seconds: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for another sync of this run to end. After that, the command fails."),
    ] = 0.0,
    retry_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds for which calls to the Hub are retried while it is unavailable.")
    ] = 900.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the state of the sync as one JSON document on stdout.")
    ] = False,
) -> None:
    """Push logs, metrics, TensorBoard files, segments, reports and a README once to the logs repository on a Hub."""
    from bloomery.base.atomic import dump_json
    from bloomery.contracts.paths import RunPaths
    from bloomery.contracts.result import Place
    from monitoring.sync_run import REPORT_NAME, sync_run

    state = sync_run(RunPaths(run), result=result, wait_seconds=wait_seconds, retry_seconds=retry_seconds)
    if as_json:
        print(dump_json(state.model_dump(mode="json")), end="")
    elif result is not None:
        print(Place.of(result).shown / REPORT_NAME)
