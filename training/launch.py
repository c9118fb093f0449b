"""What a rule starts: holds the lease, runs one segment's processes, and writes down how it ended.

A TERM to the launcher becomes the stop file, which every rank sees in its next control poll: the segment saves and ends
cleanly. A kill -9 of the launcher takes torchrun and the ranks with it (`training.loop.death`; in a SLURM job the
scheduler ends them with the job).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from types import FrameType
from typing import Any

from bloomery.base.atomic import read_json, write_text
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError, TryAgainError
from bloomery.base.progress import say
from bloomery.config.stages import TrainStage, read_stage
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint, step_folders, step_name
from bloomery.contracts.index import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.prefix import how_to_keep, prefix_differences, sample_prefix
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, read_segment, write_segment
from bloomery.plan.batch import total_iterations
from bloomery.plan.engine import refuse_untrainable
from training.loop.death import die_with_parent
from training.loop.identity import continues, differences, identity, identity_facts
from training.loop.lease import lease
from training.start import Allocation, end_of_job, process_environment, start_command

_BY_SIGNAL = "signal\n"
"""In the stop file when a signal to the launcher wrote it, and not a person."""


def launch_segment(config: Path, run: Path, number: int, output: Path, allocation: Allocation | None = None) -> Segment:
    """Run segment `number` of the training in `run` and write its file.

    Args:
        config: the training's part of the configuration.
        run: folder of the run.
        number: of the segment, from 1.
        output: the segment's file.
        allocation: nodes of the SLURM job around this process; None: every process on this machine.

    Returns the segment when the chain may go on or is done: finished, time limit, or a crash within the budget.

    Raises:
        TryAgainError: stopped by a person; the same command goes on from the checkpoint.
        CheckFailedError: the crash budget is used up, or a check of the training failed.
        ConfigError, InputError: the configuration or the index is wrong.
    """
    stage = read_stage(config, TrainStage)
    refuse_untrainable(stage.model, stage.training)
    paths = RunPaths(run)
    with lease(paths.train):
        settle_identity(stage, paths)
        before = _history(paths, number)
        if before and _stands(before[-1], stage, paths):
            # The job of a workflow that was killed went on, and has written this segment since.
            say(f"segment {number} has ended already: {before[-1].status.value} at iteration {before[-1].iteration}")
            write_segment(output, before[-1])
            return before[-1]
        _heed_stop(paths)
        result = paths.segments / f".result-{number}.json"
        result.unlink(missing_ok=True)
        code = _run_processes(stage, config, paths, number, result, allocation)
        segment, error = _outcome(stage, paths, number, result, code)
        write_segment(paths.segments / "history" / f"{number}-{len(before) + 1}.json", segment)
        if error is not None:
            raise error
        if segment.status in (SegmentStatus.STOPPED, SegmentStatus.FINISHED):
            # Used up; one that came too late for a segment that ended otherwise is for the next one.
            (paths.control / STOP_FILE).unlink(missing_ok=True)
        if segment.status is SegmentStatus.STOPPED:
            raise TryAgainError(
                f"stopped after iteration {segment.iteration} of {segment.total_iterations}; "
                f"checkpoint {segment.checkpoint} is saved",
                where=str(paths.train),
                expected="run the same command again to go on",
            )
        if segment.crashes > stage.training.segment.max_crashes:
            raise CheckFailedError(
                f"{segment.crashes} crashes in a row; the last: {segment.message}",
                where=str(paths.train),
                expected=f"at most training.segment.max_crashes = {stage.training.segment.max_crashes}",
            )
        write_segment(output, segment)
        return segment


def _history(paths: RunPaths, number: int) -> list[Segment]:
    """Every time that segment `number` ended, in order."""
    found: list[Segment] = []
    while (path := paths.segments / "history" / f"{number}-{len(found) + 1}.json").exists():
        found.append(read_segment(path))
    return found


def _heed_stop(paths: RunPaths) -> None:
    """Raise TryAgainError when a person asked to stop before we began; that request is then used up."""
    stop = paths.control / STOP_FILE
    paths.control.mkdir(parents=True, exist_ok=True)
    asked = stop.exists() and stop.read_text(encoding="utf-8") != _BY_SIGNAL
    # What a launcher left behind that was ended while it stopped (a job that is requeued, say) is no request.
    stop.unlink(missing_ok=True)
    if asked:
        raise TryAgainError("asked to stop before the segment began", where=str(stop), expected="start again to go on")


def _stands(segment: Segment, stage: TrainStage, paths: RunPaths) -> bool:
    """Whether a segment of this training ended well and nothing was trained since."""
    newest, index = _newest(paths), read_index_manifest(paths.index_manifest)
    own = identity(stage, index)
    return (
        segment.status in (SegmentStatus.FINISHED, SegmentStatus.TIME_LIMIT)
        and newest is not None
        and segment.checkpoint == step_name(newest.iteration)
        and segment.identity == own
        and continues(newest, own, index)
        and segment.total_iterations == total_iterations(stage.training.batch, stage.training.train_samples)
    )


def _newest(paths: RunPaths) -> CheckpointManifest | None:
    """Manifest of the newest finished checkpoint, whatever its identity."""
    folders = step_folders(paths.checkpoints)
    return read_checkpoint(folders[0]) if folders else None


def settle_identity(stage: TrainStage, paths: RunPaths) -> None:
    """Keep checkpoints of another training apart: move them to the archive, or refuse, as the configuration says.

    Raises:
        CheckFailedError: refused, with what is not the same and what would be right.
    """
    index = read_index_manifest(paths.index_manifest)
    newest = _newest(paths)
    own = identity(stage, index)
    if newest is None or continues(newest, own, index):
        return
    changed, keep = [], "the old configuration"
    if newest.identity != own:
        before = TrainStage.model_validate(newest.config)
        changed = differences(identity_facts(before, index), identity_facts(stage, index)) or ["the tokenizer"]
    now = sample_prefix(index, newest.consumed_samples)
    if newest.prefix != now:
        others = ", ".join(prefix_differences(newest.prefix, now))
        changed.append(f"the first {newest.consumed_samples} samples would be others ({others})")
        keep = how_to_keep(newest.prefix)
    text = "; ".join(changed)
    if stage.training.on_change == "refuse":
        raise CheckFailedError(
            f"the checkpoints were trained from something else: {text}",
            where=str(paths.checkpoints),
            expected=f"{keep}; or another run name, or training.on_change: restart",
        )
    archive = paths.train / "archive" / f"{newest.identity[:12]}-step{newest.iteration}"
    shutil.rmtree(archive, ignore_errors=True)
    archive.mkdir(parents=True)
    for folder in (paths.checkpoints, paths.logs, paths.segments / "history"):
        if folder.exists():
            folder.rename(archive / folder.name)
    say(f"training begins anew, because this changed: {text}. The old one is kept in {archive}")
    if newest.prefix != now:
        say(f"To go on from it instead: {keep}")


def _run_processes(
    stage: TrainStage, config: Path, paths: RunPaths, number: int, result: Path, allocation: Allocation | None
) -> int:
    """Run the segment's processes to their end; a TERM or INT to us asks them to stop through the stop file."""
    arguments = ["--config", str(config), "--folder", str(paths.run), "--number", str(number), "--result", str(result)]
    if (end := end_of_job()) is not None:
        arguments += ["--end", f"{end:.0f}"]
    command = start_command(stage.training, allocation, arguments)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        say("asked to stop: saving after the current iteration")
        write_text(paths.control / STOP_FILE, _BY_SIGNAL)

    previous = {caught: signal.signal(caught, ask_to_stop) for caught in (signal.SIGTERM, signal.SIGINT)}
    # A session of its own: a Ctrl-C in the terminal reaches us alone, and we tell the ranks.
    environment = process_environment(stage.training)
    process = subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=die_with_parent)
    try:
        return process.wait()
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)


def _outcome(
    stage: TrainStage, paths: RunPaths, number: int, result: Path, code: int
) -> tuple[Segment, BloomeryError | None]:
    """The segment that its processes left, or a failed or crashed one that says where the checkpoints stand."""
    answer: dict[str, Any] = read_json(result) if result.exists() else {}
    result.unlink(missing_ok=True)
    # torchrun that was told to end says 1, though every rank had saved and ended: the ranks' own word counts.
    if "segment" in answer:
        return Segment.model_validate(answer["segment"]), None
    error = None
    status, crashes = SegmentStatus.CRASHED, _previous_crashes(paths, number) + 1
    message = f"its processes ended with code {code}"
    if "error" in answer:
        status, crashes, message = SegmentStatus.FAILED, 0, str(answer["error"])
        error = BloomeryError(message)
        error.exit_code = answer["exit_code"]
    newest = _newest(paths)
    segment = Segment(
        number=number,
        status=status,
        first_iteration=0,
        iteration=newest.iteration if newest else 0,
        total_iterations=total_iterations(stage.training.batch, stage.training.train_samples),
        consumed_samples=newest.consumed_samples if newest else 0,
        consumed_tokens=newest.consumed_tokens if newest else 0,
        checkpoint=step_name(newest.iteration) if newest else None,
        identity=identity(stage, read_index_manifest(paths.index_manifest)),
        crashes=crashes,
        message=message,
    )
    return segment, error


def _previous_crashes(paths: RunPaths, number: int) -> int:
    path = paths.segments / f"{number - 1}.json"
    return read_segment(path).crashes if number > 1 and path.exists() else 0


def finish(run: Path, output: Path) -> Segment:
    """Write `output` (train/finished.json) from the first finished segment of the chain. Raises InputError if none."""
    paths = RunPaths(run)
    number = 1
    while (path := paths.segments / f"{number}.json").exists():
        segment = read_segment(path)
        if segment.status is SegmentStatus.FINISHED:
            write_segment(output, segment)
            return segment
        number += 1
    raise InputError("no segment is finished", where=str(paths.segments), expected="a finished training")
