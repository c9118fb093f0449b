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
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes of the SLURM job around this command; absent: this machine alone.")
    ] = None,
    ranks_per_node: Annotated[int, typer.Option(min=1, help="Processes on each of the nodes.")] = 1,
    cpus_per_node: Annotated[int, typer.Option(min=1, help="CPUs of each node that the processes share.")] = 1,
) -> None:
    """Train one segment from the newest checkpoint. Exit codes: 0 go on or done, 1 failed, 2 config, 75 stopped."""
    from training.launch import launch_segment
    from training.start import Allocation

    allocation = Allocation(nodes, ranks_per_node, cpus_per_node) if nodes else None
    launch_segment(config, run, number, output, allocation)


@app.command()
def finish(
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[Path, typer.Option(help="File for the finished segment (train/finished.json).")],
) -> None:
    """Close the chain of segments."""
    from training.launch import finish as close

    close(run, output)
