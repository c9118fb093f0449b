"""The `bloomery train` commands: train a segment, roll back, print the resume policy, and record the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Train a model in segments, such as one segment for each SLURM job.")


Config = Annotated[Path, typer.Option(help="Configuration of the training (runs/<name>/config/train.json).")]
Run = Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")]
Log = Annotated[
    Path | None,
    typer.Option(help="File to write a copy of all printed messages to, without the progress bar."),
]
RanksPerNode = Annotated[
    int, typer.Option(min=1, help="Number of training processes on each node. Used only with --nodes.")
]
NodeRank = Annotated[
    int | None,
    typer.Option(min=0, help="Number of this machine, from 0. Only on several machines without a scheduler."),
]
MasterAddress = Annotated[
    str | None,
    typer.Option(help="Host name or IP address of node 0. Only on several machines without a scheduler."),
]
MasterPort = Annotated[
    int,
    typer.Option(min=1, max=65535, help="Port on which node 0 accepts the other nodes. Used with --master-address."),
]
NodeSilence = Annotated[
    float,
    typer.Option(
        min=2, help="Time in seconds without an answer after which a node is lost. Used with --master-address."
    ),
]
NodeWait = Annotated[
    float,
    typer.Option(
        min=0,
        help="Maximum time in minutes to wait for other nodes. After that, the exit code is 75. "
        "Used with --master-address.",
    ),
]


@app.command()
def segment(
    config: Config,
    run: Run,
    number: Annotated[int, typer.Option(min=1, help="Number of the segment. The first segment has number 1.")],
    output: Annotated[
        Path,
        typer.Option(help="JSON file to write the segment's result to (runs/<name>/train/segments/<number>.json)."),
    ],
    log: Log = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of nodes of the SLURM job in which this command runs, or of the machines on which this "
            "command was started with --node-rank. Default: this machine only.",
        ),
    ] = None,
    ranks_per_node: RanksPerNode = 1,
    cpus_per_node: Annotated[
        int,
        typer.Option(min=1, help="Number of CPUs on each node of a SLURM job for all its training processes."),
    ] = 1,
    node_rank: NodeRank = None,
    master_address: MasterAddress = None,
    master_port: MasterPort = 29500,
    node_silence_seconds: NodeSilence = 30.0,
    node_wait_minutes: NodeWait = 60.0,
    next_job: Annotated[
        list[str] | None,
        typer.Option(
            help="Option of sbatch with which this segment submits the SLURM job of the next segment, such as "
            "--next-job=--nodes=4. Repeat it for each option. Default: no job is submitted."
        ),
    ] = None,
) -> None:
    """Train one segment of a training, starting from the newest checkpoint.

    Exit codes: 0 if the next segment can start or the training has finished, 1 on failure, 2 on a configuration error,
    75 if somebody stopped the segment.
    """
    from contextlib import nullcontext

    from bloomery.base.log_file import stderr_in_log
    from training.nodes.place import node_place
    from training.processes.start_command import Allocation
    from training.segments.launch import launch_segment
    from training.segments.next_segment import next_segment
    from training.segments.run_segments import run_segment_on_nodes

    place = node_place(
        nodes,
        node_rank,
        ranks_per_node,
        master_address,
        master_port,
        node_silence_seconds,
        node_wait_minutes,
        in_slurm=True,
    )
    with nullcontext() if log is None else stderr_in_log(log):
        if place is not None:
            run_segment_on_nodes(config, run, number, output, place)
            return
        allocation = Allocation(nodes, ranks_per_node, cpus_per_node) if nodes else None
        following = next_segment(config, run, number, output, allocation, log, next_job) if next_job else None
        launch_segment(config, run, number, output, allocation, following)


@app.command(hidden=True)
def settle(
    config: Annotated[Path, typer.Option(help="Configuration of the training (runs/<name>/config/train.json).")],
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    number: Annotated[int, typer.Option(min=1, help="Number of the segment.")],
    output: Annotated[Path, typer.Option(help="JSON file of the segment (runs/<name>/train/segments/<number>.json).")],
    job: Annotated[str, typer.Option(help="Id of the segment's SLURM job, which has ended.")],
    state: Annotated[
        str | None, typer.Option(help="Final state of the job. Default: SLURM does not remember the job.")
    ] = None,
) -> None:
    """Record how a training job ended, if its launcher did not. The SLURM executor calls this command."""
    from training.segments.settle_segment import settle_segment

    settle_segment(config, run, number, output, job, state)


@app.command("run")
def run_all(
    run: Run,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration of the training. Default: config/train.json in the folder of the run."),
    ] = None,
    log: Log = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Number of machines on which this command was started. Default: this machine only."),
    ] = None,
    ranks_per_node: RanksPerNode = 1,
    node_rank: NodeRank = None,
    master_address: MasterAddress = None,
    master_port: MasterPort = 29500,
    node_silence_seconds: NodeSilence = 30.0,
    node_wait_minutes: NodeWait = 60.0,
) -> None:
    """Train without a workflow: run segment after segment until the training is finished.

    The command runs on one machine, or on several machines without a scheduler. On several machines, start it on each
    of them with its own --node-rank. All machines need the same run folder, on a shared file system. Snakemake must
    have built the index before (target `index`), and can export the model afterwards.

    Exit codes: 0 if the training has finished, 1 on failure, 2 on a configuration error, 75 if somebody stopped the
    training or if nodes are missing.
    """
    from contextlib import nullcontext

    from bloomery.base.log_file import stderr_in_log
    from training.nodes.place import node_place
    from training.segments.run_segments import run_training

    place = node_place(
        nodes,
        node_rank,
        ranks_per_node,
        master_address,
        master_port,
        node_silence_seconds,
        node_wait_minutes,
        in_slurm=False,
    )
    with nullcontext() if log is None else stderr_in_log(log):
        run_training(config or run / "config" / "train.json", run, place)


@app.command()
def roll_back(
    run: Run,
    from_sample: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the first sample to skip, counted from 0 in the order of training."),
    ] = None,
    to_sample: Annotated[
        int | None, typer.Option(min=1, help="Number of the first sample after the skipped range.")
    ] = None,
    to_checkpoint: Annotated[
        str | None,
        typer.Option(help="Name of the checkpoint to roll back to, such as step00000100. No samples are skipped."),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Reason for the roll-back, which is recorded in train/skips.json or train/rolled-back.")
    ] = "requested by a user",
) -> None:
    """Roll back to a checkpoint from before a range of samples and skip these samples, or roll back to a named
    checkpoint and skip no samples.

    The next segment resumes from that checkpoint. The command waits until no process is training the run. Newer
    checkpoints move to train/rolled-back.
    """
    from bloomery.base.errors import InputError
    from bloomery.base.progress import say
    from bloomery.contracts.index_manifest import read_index_manifest
    from bloomery.contracts.paths import RunPaths
    from training.loop.hold_lease import lease
    from training.resume.roll_back import complete_roll_backs
    from training.resume.roll_back import roll_back as go_back
    from training.resume.roll_back_to_checkpoint import roll_back_to_checkpoint

    given = (from_sample is not None, to_sample is not None, to_checkpoint is not None)
    if given not in ((True, True, False), (False, False, True)):
        raise InputError(
            "the options do not tell where to roll back to",
            where="--from-sample, --to-sample, --to-checkpoint",
            expected="either --from-sample and --to-sample, which skips these samples, or --to-checkpoint alone, which "
            "skips none",
        )
    paths = RunPaths(run)
    if not paths.checkpoints.is_dir():
        raise InputError(
            "this run has no checkpoints",
            where=str(paths.checkpoints),
            expected="--run with the folder of a run that has saved a checkpoint",
        )
    if to_checkpoint is not None:
        with lease(paths.train):
            complete_roll_backs(paths)
            roll_back_to_checkpoint(paths, to_checkpoint, reason)
        say(f"the next segment starts from {to_checkpoint} and skips no samples")
        return
    assert from_sample is not None
    assert to_sample is not None
    samples = read_index_manifest(paths.index_manifest).train_samples
    if not from_sample < to_sample <= samples:
        raise InputError(
            f"samples {from_sample} to {to_sample} are not a valid range of this training",
            where="--from-sample, --to-sample",
            expected=f"values from 0 to {samples}, with --from-sample below --to-sample",
        )
    with lease(paths.train):
        done = go_back(paths, from_sample, to_sample, reason, by_guard=False)
    start = f"from {done.checkpoint}" if done.checkpoint else "from the beginning"
    say(f"the next segment starts {start} and skips samples {done.from_sample} to {done.to_sample - 1}")


@app.command()
def policy() -> None:
    """Print which configuration keys may change when a training resumes from a checkpoint.

    The output is the Markdown table of docs/resume.md.
    """
    from bloomery.contracts.resume_policy import policy_table

    print(policy_table(), end="")


@app.command(hidden=True)
def probe(
    config: Annotated[Path, typer.Option(help="JSON file with the configuration of the training.")],
    rows: Annotated[int, typer.Option(min=1, help="Number of embedding rows of the network.")],
    output: Annotated[Path, typer.Option(help="JSON file to write the measured times to.")],
    seconds: Annotated[float, typer.Option(min=1, help="Time in seconds after which no further step starts.")] = 20.0,
) -> None:
    """Measure how long a few training steps take on this machine. `bloomery init` calls this command."""
    from bloomery.base.atomic import write_json
    from bloomery.config.stages import TrainStage, read_stage
    from training.time_steps import time_steps

    write_json(output, time_steps(read_stage(config, TrainStage), rows, seconds))


@app.command()
def finish(
    run: Run,
    output: Annotated[
        Path,
        typer.Option(help="JSON file to copy the result of the last segment to (runs/<name>/train/finished.json)."),
    ],
) -> None:
    """Record that a training has finished. This fails if no segment has reached the end of the training."""
    from training.segments.launch import finish as close

    close(run, output)
