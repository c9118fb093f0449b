"""Record the end of a segment whose launcher could not: it was killed, or its job ended before the launcher began.

The workflow calls `settle_segment` when a training job has ended without its output, and the launcher of the next
segment calls it if that launcher begins first. A fault makes the chain continue within its budget of crashes. A
person's stop, and an error that a retry cannot fix, end the chain.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.times import utc_now
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import newest_manifest
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import identity
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from bloomery.contracts.segment_start import SegmentStart, read_start
from bloomery.contracts.skips import effective
from bloomery.contracts.train_stage import read_configured
from training.loop.hold_lease import lease
from training.resume.resolve_resume import ResumePoint
from training.segments.job_end import end_by_state
from training.segments.segment_record import ending, judge_crash, read_history, record
from training.segments.wait_for_space import RECORD_BYTES, wait_for_space

_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.5


def settle_segment(config: Path, run: Path, number: int, output: Path, job: str, state: str | None) -> None:
    """Record how a training job ended, if its launcher did not.

    Args:
        config: configuration of the training stage (config/train.json).
        run: folder of the run.
        number: number of the segment.
        output: file of the segment. If the file exists, nothing is done.
        job: id of the SLURM job, which has ended.
        state: final state of the job that squeue showed; None if squeue has forgotten the job.

    Raises:
        TryAgainError: a person stopped the segment, or another launcher holds the lease for too long.
        CheckFailedError: there were more than `max_crashes` crashes since the last new checkpoint.
        BloomeryError: the launcher ended with an error that a retry cannot fix. The exit code is that of the error.
    """
    paths = RunPaths(run)
    deadline = time.monotonic() + _WAIT_SECONDS
    while not output.exists():
        with ExitStack() as held:
            try:
                held.enter_context(lease(paths.train, wait=False))
            except TryAgainError:
                # The next segment has begun already, and its launcher settles this one.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
                continue
            if not output.exists():
                wait_for_space(paths, RECORD_BYTES)
                settle(read_configured(config, paths), paths, number, output, job, state)


def settle(stage: TrainStage, paths: RunPaths, number: int, output: Path, job: str, state: str | None) -> None:
    """Do the work of `settle_segment` while this process holds the lease.

    `stage` is the configuration of the training, without the samples that the run skips.
    """
    start = read_start(paths, number)
    if start is None or start.job != job:
        start = SegmentStart(number=number, job=job, host=socket.gethostname(), pid=os.getpid(), started=utc_now())
    elif start.error is not None:
        error = BloomeryError(start.error)
        error.exit_code = start.exit_code or BloomeryError.exit_code
        raise error
    attempts = [each for each in read_history(paths, number) if each.job == job and each.started == start.started]
    segment = attempts[-1] if attempts else _record_end(stage, paths, start, job, state)
    if segment.status is SegmentStatus.STOPPED:
        raise TryAgainError(
            f"segment {number} was stopped: {segment.message}",
            where=str(paths.train),
            expected="run the workflow again to resume from the newest checkpoint",
        )
    if segment.status is SegmentStatus.FAILED:
        raise BloomeryError(segment.message)
    if segment.status is SegmentStatus.CRASHED:
        judge_crash(paths, segment, stage.training.segment.max_crashes)
    write_segment(output, segment)


def _record_end(stage: TrainStage, paths: RunPaths, start: SegmentStart, job: str, state: str | None) -> Segment:
    """Add the end of a killed launcher to the history, and return it."""
    index, configured = read_index_manifest(paths.index_manifest), effective(stage, paths)
    resume = ResumePoint(configured, index, identity(configured, index), newest_manifest(paths.checkpoints))
    why = end_by_state(job, state)
    status = SegmentStatus.STOPPED if why.fault is None else SegmentStatus.CRASHED
    segment = ending(resume, paths, start, status, why.message, fault=why.fault)
    record(paths, segment)
    return segment
