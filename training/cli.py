"""`bloomery train`: one segment of training, and the end of the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Train a model in segments.")


@app.command()
def segment(
    config: Annotated[Path, typer.Option(help="The training's part of the configuration (config/train.json).")],
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    number: Annotated[int, typer.Option(min=1, help="Number of the segment.")],
    output: Annotated[Path, typer.Option(help="File that says how the segment ended.")],
) -> None:
    """Train one segment from the newest checkpoint. Exit codes: 0 go on or done, 1 failed, 2 config, 75 stopped."""
    from training.launch import launch_segment

    launch_segment(config, run, number, output)


@app.command()
def finish(
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[Path, typer.Option(help="File for the finished segment (train/finished.json).")],
) -> None:
    """Close the chain of segments."""
    from training.launch import finish as close

    close(run, output)
