"""`bloomery monitor`: write pages about a training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write a page with plots of a training.")


@app.callback()
def _root() -> None:
    """Keep `plots` as a subcommand, although it is the only one."""


@app.command()
def plots(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    output_html: Annotated[
        Path | None, typer.Option(help="HTML file to write, with the plots of the training.")
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            help="File that records the run's page (runs/<name>/results/report/training.json). Give it instead of "
            "--output-html. The previous page is replaced when the new page is complete."
        ),
    ] = None,
) -> None:
    """Write one self-contained page with the losses, learning rate, gradient norm and speed of a training."""
    from bloomery.base.atomic import write_text
    from bloomery.base.digest import sha256_file
    from bloomery.base.progress import say
    from bloomery.contracts import lineage
    from bloomery.contracts.describe_origin import describe_origin, describe_stale
    from bloomery.contracts.paths import RunPaths
    from bloomery.contracts.read_metrics import events, total_energy, valid_records
    from bloomery.contracts.result import written_to
    from bloomery.contracts.stale_artefacts import stale_training
    from monitoring.timeline import read_timeline
    from monitoring.timeline_rows import goodput_text
    from monitoring.training_page import training_page

    paths = RunPaths(run)
    metrics = paths.logs / "metrics.jsonl"
    records, validations = valid_records(metrics)
    stale = stale_training(paths)
    # The page does not depend on the current time: it describes the training up to its last record.
    used = read_timeline(paths, 0.0, finished=True).goodput
    with written_to(None if output_html is None else output_html.parent, result, "--output-html") as new:
        name = "training.html" if output_html is None else output_html.name
        if paths.finished.is_file():
            new.made_from = {lineage.TRAINING: sha256_file(paths.finished)}
        page = training_page(
            run.name,
            records,
            validations,
            events(metrics),
            total_energy(metrics),
            goodput=None if used is None else goodput_text(used),
            origin=describe_origin(new.made_from),
            stale=None if stale is None else describe_stale(stale),
        )
        write_text(new.folder / name, page)
    say(f"wrote {new.shown / name}, with {len(records)} iterations of the training")
