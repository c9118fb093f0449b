"""The `bloomery checkpoint` commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Inspect, reshard or repair a checkpoint.")


class _OnDrift(StrEnum):
    """Values of --on-drift."""

    MEAN_FP32 = "mean-fp32"
    RANK0 = "rank0"


@app.command()
def inspect(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the checkpoint.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the description as one JSON document on stdout.")
    ] = False,
) -> None:
    """Show the layout, position, optimizer state and tensors of a checkpoint, and copies that differ.

    Only the manifest, the headers of the files and small parts of them are read. The exit code is 1 if copies of a
    state differ, or if files are missing or do not fit the layout.
    """
    from dataclasses import asdict

    from pydantic_core import to_jsonable_python

    from bloomery.base.atomic import dump_json
    from training.checkpoint.inspect_checkpoint import inspect_checkpoint
    from training.checkpoint.show_inspection import show_inspection

    found = inspect_checkpoint(checkpoint)
    if as_json:
        print(dump_json({**to_jsonable_python(asdict(found)), "good": found.is_good}), end="")
    else:
        show_inspection(found)
    if not found.is_good:
        raise typer.Exit(1)


@app.command()
def repair(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    on_drift: Annotated[
        _OnDrift,
        typer.Option(
            help="Value that replaces differing copies of fp32 state. mean-fp32: the mean of all copies, in fp32. "
            "rank0: the copy of the first tensor-parallel rank."
        ),
    ],
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Name of the checkpoint, such as step00000100. Default: the newest checkpoint."),
    ] = None,
) -> None:
    """Make the copies of weights, fp32 master weights, moments and random number states in a checkpoint equal.

    The command prints each repaired tensor and the greatest difference between its first copy and another copy. The
    repair is recorded in the checkpoint's manifest.json, and the checkpoint before the repair moves to
    train/before-repair. The command fails with exit code 75 while a process is training the run.
    """
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.contracts.paths import RunPaths
    from training.checkpoint.repair_checkpoint import check_run, repair_checkpoint
    from training.loop.hold_lease import lease
    from training.loop.quiet_logging import quiet_logging

    quiet_logging()
    paths = RunPaths(run)
    check_run(paths)
    with lease(paths.train, wait=False):
        done = repair_checkpoint(paths, checkpoint, on_drift.value)
    if done.before is None:
        say(f"all copies in {done.checkpoint} are equal; nothing was changed")
        return
    rows = [
        [name, "replaced by the states of rank 0" if difference is None else f"{difference:.3g}"]
        for name, difference in done.tensors.items()
    ]
    print_table(("repaired tensor", "greatest difference"), rows, title=f"{done.checkpoint}, {on_drift.value}")
    say(
        f"before you export {done.checkpoint}, start the training again: if the repair changed weights or fp32 state, "
        "this start computes the new reference logits that an export needs"
    )


@app.command()
def reshard(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the checkpoint.")],
    tensor: Annotated[int, typer.Option(min=1, max=100_000, help="New tensor-parallel size.")],
    pipeline: Annotated[int, typer.Option(min=1, max=100_000, help="New pipeline-parallel size.")],
    output: Annotated[Path, typer.Option(help="New folder of the resharded checkpoint.")],
    data: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="New data-parallel size. Default: that of the checkpoint."),
    ] = None,
) -> None:
    """Write a checkpoint for another layout: weights, fp32 master weights and the optimizer's moments.

    All values stay equal bit for bit. A training does not need this command, because it loads a checkpoint of any
    layout. The command is for other programs, and for moving a checkpoint to another cluster.
    """
    from bloomery.base.progress import say
    from bloomery.contracts.checkpoint import step_name
    from training.checkpoint.reshard_checkpoint import reshard_checkpoint

    done = reshard_checkpoint(checkpoint, output, tensor=tensor, pipeline=pipeline, data=data)
    layout = f"{done.tensor_parallel} tensor x {done.pipeline_parallel} pipeline x {done.data_parallel} data ranks"
    say(f"wrote {output}: {len(done.files)} files for {layout}")
    say(
        f"to train from it, move it to train/checkpoints/{step_name(done.iteration)} of a run, and set "
        "training.parallel of the run to this layout"
    )
