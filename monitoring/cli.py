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
    output_html: Annotated[Path, typer.Option(help="HTML file to write, with the plots of the training.")],
) -> None:
    """Write one self-contained page with the losses, learning rate, gradient norm and speed of a training."""
    from bloomery.base.atomic import write_text
    from bloomery.base.progress import say
    from bloomery.contracts.metrics_record import events, total_energy, valid_records
    from bloomery.contracts.paths import RunPaths
    from monitoring.training_page import training_page

    metrics = RunPaths(run).logs / "metrics.jsonl"
    records, validations = valid_records(metrics)
    page = training_page(run.name, records, validations, events(metrics), total_energy(metrics))
    write_text(output_html, page)
    say(f"wrote {output_html}, with {len(records)} iterations of the training")
