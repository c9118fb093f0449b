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
    from training.start_command import Allocation

    allocation = Allocation(nodes, ranks_per_node, cpus_per_node) if nodes else None
    launch_segment(config, run, number, output, allocation)


@app.command()
def roll_back(
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    from_sample: Annotated[int, typer.Option(min=0, help="First sample to leave out.")],
    to_sample: Annotated[int, typer.Option(min=1, help="First sample behind them.")],
    reason: Annotated[str, typer.Option(help="Why, for those who come later.")] = "asked for",
) -> None:
    """Go back to a checkpoint from before some samples and leave them out; the next segment goes on from there.

    Waits until nobody trains the run.
    """
    from bloomery.base.errors import InputError
    from bloomery.base.progress import say
    from bloomery.contracts.index import read_index_manifest
    from bloomery.contracts.paths import RunPaths
    from training.loop.hold_lease import lease
    from training.resume.roll_back import roll_back as go_back

    paths = RunPaths(run)
    if not paths.checkpoints.is_dir():
        raise InputError("no training has saved a checkpoint here", where=str(paths.checkpoints))
    samples = read_index_manifest(paths.index_manifest).train_samples
    if not from_sample < to_sample <= samples:
        raise InputError(
            f"samples {from_sample} to below {to_sample} are no range of this training's",
            where="--from-sample, --to-sample",
            expected=f"from 0 to {samples} at most, the first below the second",
        )
    with lease(paths.train):
        done = go_back(paths, from_sample, to_sample, reason, by_guard=False)
    start = f"from {done.checkpoint}" if done.checkpoint else "from the beginning"
    say(f"the training goes on {start}, without samples {done.from_sample} to {done.to_sample - 1}")


@app.command()
def policy() -> None:
    """Print which keys may change when a training goes on from a checkpoint (Markdown, as in docs/resume.md)."""
    from training.resume.policy import policy_table

    print(policy_table(), end="")


@app.command()
def finish(
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[Path, typer.Option(help="File for the finished segment (train/finished.json).")],
) -> None:
    """Close the chain of segments."""
    from training.launch import finish as close

    close(run, output)
