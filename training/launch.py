"""What a rule starts: holds the lease, runs one segment's processes, and writes down how it ended.

A TERM to the launcher becomes the stop file, which every rank sees in its next control poll: the segment saves and ends
cleanly. A kill -9 of the launcher takes torchrun and the ranks with it (`training.loop.die_with_parent`; in a SLURM job
the scheduler ends them with the job).
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import FrameType
from typing import Any

from bloomery.base.atomic import read_json, write_text
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError, TryAgainError
from bloomery.base.progress import say
from bloomery.checks.check_training import refuse_contradictions
from bloomery.config.stages import TrainStage, read_stage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, clear_request, read_segment, write_segment
from bloomery.spec.refuse_unsupported import refuse_untrainable
from training.guards.incident_texts import IncidentTexts
from training.loop.die_with_parent import die_with_parent
from training.loop.hold_lease import lease
from training.resume.check_folders import check_folders
from training.resume.count_starts import count_start, forget_starts
from training.resume.resolve_resume import ResumePoint, resolve_resume
from training.start_command import Allocation, end_of_job, process_environment, start_command

_BY_SIGNAL = "signal\n"
"""In the stop file when a signal to the launcher wrote it, and not a person."""
_LOOK_EVERY_SECONDS = 1.0
_TEXTS_SECONDS = 60.0
"""For the texts of incidents, after the processes have ended."""


def launch_segment(config: Path, run: Path, number: int, output: Path, allocation: Allocation | None = None) -> Segment:
    """Run segment `number` of the training in `run` and write its file.

    Args:
        config: the training's part of the configuration.
        run: folder of the run.
        number: of the segment, from 1.
        output: the segment's file.
        allocation: nodes of the SLURM job around this process; None: every process on this machine.

    Returns the segment when the chain may go on or is done: finished, time limit, rolled back, or a crash within the
    budget.

    Raises:
        TryAgainError: stopped by a person; the same command goes on from the checkpoint.
        CheckFailedError: the crash budget is used up, nothing comes of many starts, a check of the training failed, or
            what changed since the newest checkpoint is refused.
        ConfigError, InputError: the configuration or the index is wrong, or there is a folder where a file should be.
    """
    configured = read_stage(config, TrainStage)
    refuse_contradictions(configured.training, where=str(config))
    refuse_untrainable(configured.model, configured.training)
    paths = RunPaths(run)
    with lease(paths.train):
        check_folders(paths)
        resume = resolve_resume(configured, paths)
        limits = resume.stage.training.segment
        before = _history(paths, number)
        if before and _still_valid(before[-1], resume):
            # The job of a workflow that was killed went on, and has written this segment since.
            say(f"segment {number} has ended already: {before[-1].status.value} at iteration {before[-1].iteration}")
            write_segment(output, before[-1])
            return before[-1]
        _heed_stop(paths)
        iteration = None if resume.checkpoint is None else resume.checkpoint.iteration
        count_start(paths, iteration, limits.max_restarts_without_progress, _last_attempt(paths, number))
        result = paths.segments / f".result-{number}.json"
        result.unlink(missing_ok=True)
        code = _run_processes(resume.stage, config, paths, number, result, allocation)
        segment, error = _outcome(resume, paths, number, result, code)
        write_segment(paths.segments / "history" / f"{number}-{len(before) + 1}.json", segment)
        if error is not None:
            raise error
        if segment.status is SegmentStatus.FINISHED:
            forget_starts(paths)
        if segment.status in (SegmentStatus.STOPPED, SegmentStatus.FINISHED):
            # Used up; one that came too late for a segment that ended otherwise is for the next one.
            clear_request(paths.control / STOP_FILE)
        if segment.status is SegmentStatus.STOPPED:
            raise TryAgainError(
                f"stopped after iteration {segment.iteration} of {segment.total_iterations}; "
                f"checkpoint {segment.checkpoint} is saved",
                where=str(paths.train),
                expected="run the same command again to go on",
            )
        if segment.crashes > limits.max_crashes:
            raise CheckFailedError(
                f"{segment.crashes} crashes in a row; the last: {segment.message}",
                where=str(paths.train),
                expected=f"at most training.segment.max_crashes = {limits.max_crashes}",
            )
        write_segment(output, segment)
        return segment


def _history(paths: RunPaths, number: int) -> list[Segment]:
    """Every time that segment `number` ended, in order."""
    found: list[Segment] = []
    while (path := paths.segments / "history" / f"{number}-{len(found) + 1}.json").exists():
        found.append(read_segment(path))
    return found


def _last_attempt(paths: RunPaths, number: int) -> Segment | None:
    """How the training ended the last time, before the start of segment `number` now."""
    earlier = _history(paths, number) or (_history(paths, number - 1) if number > 1 else [])
    return earlier[-1] if earlier else None


def _heed_stop(paths: RunPaths) -> None:
    """Raise TryAgainError when a person asked to stop before we began; that request is then used up."""
    stop = paths.control / STOP_FILE
    paths.control.mkdir(parents=True, exist_ok=True)
    asked = stop.exists() and stop.read_bytes() != _BY_SIGNAL.encode()
    # What a launcher left behind that was ended while it stopped (a job that is requeued, say) is no request.
    stop.unlink(missing_ok=True)
    if asked:
        raise TryAgainError("asked to stop before the segment began", where=str(stop), expected="start again to go on")


def _still_valid(segment: Segment, resume: ResumePoint) -> bool:
    """Whether a segment of this training ended well and nothing was trained since."""
    return (
        segment.status in (SegmentStatus.FINISHED, SegmentStatus.TIME_LIMIT)
        and segment.checkpoint == resume.checkpoint_name
        and segment.identity == resume.identity
        and resume.continues
        and segment.total_iterations == resume.total_iterations
    )


def _run_processes(
    stage: TrainStage, config: Path, paths: RunPaths, number: int, result: Path, allocation: Allocation | None
) -> int:
    """Run the segment's processes to their end; a TERM or INT to us asks them to stop through the stop file."""
    arguments = ["--config", str(config), "--folder", str(paths.run), "--number", str(number), "--result", str(result)]
    if (end := end_of_job()) is not None:
        arguments += ["--end", f"{end:.0f}"]
    command = start_command(stage.training, allocation, arguments)

    asked = False

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        say("asked to stop: saving after the current iteration")
        write_text(paths.control / STOP_FILE, _BY_SIGNAL)

    previous = {caught: signal.signal(caught, ask_to_stop) for caught in (signal.SIGTERM, signal.SIGINT)}
    # A session of its own: a Ctrl-C in the terminal reaches us alone, and we tell the ranks.
    environment = process_environment(stage.training)
    process = subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=die_with_parent)
    texts = IncidentTexts(paths)
    try:
        while True:
            try:
                code = process.wait(_LOOK_EVERY_SECONDS)
                break
            except subprocess.TimeoutExpired:
                texts.look()
        # Who asks us to stop waits for our end.
        texts.finish(0.0 if asked else _TEXTS_SECONDS)
        return code
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)


def _outcome(
    resume: ResumePoint, paths: RunPaths, number: int, result: Path, code: int
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
        message = str(answer["error"])
        # A fault that may pass, such as a file server that was away, is tried again, within the crash budget.
        if answer["exit_code"] != TryAgainError.exit_code:
            status, crashes, error = SegmentStatus.FAILED, 0, BloomeryError(message)
            error.exit_code = answer["exit_code"]
    left = resume.after_segment(paths)
    segment = Segment(
        number=number,
        status=status,
        first_iteration=0,
        iteration=left.position.iteration,
        total_iterations=left.total_iterations,
        consumed_samples=left.position.consumed_samples,
        consumed_tokens=left.position.consumed_tokens,
        checkpoint=left.checkpoint_name,
        identity=left.identity,
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
