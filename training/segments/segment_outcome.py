"""Turn what the processes of a segment left behind into the segment's record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Fault, FirstFailure, Segment, SegmentStatus
from bloomery.contracts.segment_start import SegmentStart
from training.processes.run_processes import BY_SIGNAL, ProcessesEnd
from training.resume.resolve_resume import ResumePoint
from training.segments.job_end import end_by_signal
from training.segments.segment_record import crashes_before, ending, place_and_time, saved_more


def outcome(
    resume: ResumePoint, paths: RunPaths, start: SegmentStart, result: Path, end: ProcessesEnd
) -> tuple[Segment, BloomeryError | None]:
    """Return the segment that the processes reported, and the error to raise (None if there is no error to raise).

    If the processes reported no segment, return a failed or crashed segment at the position of the newest checkpoint.

    Args:
        resume: configuration of the segment and the checkpoint from which it resumed.
        paths: paths of the run.
        start: start of the segment's launcher.
        result: file in which rank 0 reported the segment, or a rank its error. The file is removed.
        end: how the processes ended.
    """
    answer: dict[str, Any] = read_json(result) if result.exists() else {}
    result.unlink(missing_ok=True)
    # torchrun exits with 1 when it is stopped, even if every rank saved and ended. So the ranks' result file decides.
    if "segment" in answer:
        return _reported(resume, paths, start, Segment.model_validate(answer["segment"])), None
    fault = Fault.PROCESS
    ended = f"the segment's processes ended with code {end.code}"
    message, failed = ended, end.first_failure
    if failed is not None:
        message += f"; rank {failed.rank} on {failed.host} failed first: it {failed.ending}"
    if "error" in answer:
        message = str(answer["error"])
        fault = Fault(answer.get("fault") or Fault.PROCESS)
        if answer.get("first_failure") is not None:
            failed = FirstFailure.model_validate(answer["first_failure"])
        # A temporary fault, such as an unreachable file server, counts as a crash. `max_crashes` limits the retries.
        # After a full disk, the next launcher waits for space (`training.segments.wait_for_space`).
        if answer["exit_code"] != TryAgainError.exit_code and fault is not Fault.DISK:
            error = BloomeryError(message)
            error.exit_code = answer["exit_code"]
            return ending(resume, paths, start, SegmentStatus.FAILED, message, first_failure=failed), error
    elif end.hang is not None:
        # The launcher has ended the processes itself, also if a signal asked them to stop while they hung.
        hung = end.hang.message
        return ending(resume, paths, start, SegmentStatus.CRASHED, hung, fault=Fault.HANG, first_failure=failed), None
    elif _signalled(paths):
        # The processes were ended before they could save, so it does not matter which of them ended first.
        why = end_by_signal(start.job, start.restarts)
        status = SegmentStatus.STOPPED if why.fault is None else SegmentStatus.CRASHED
        return ending(resume, paths, start, status, f"{why.message}; {ended}", fault=why.fault), None
    crashed = SegmentStatus.CRASHED
    return ending(resume, paths, start, crashed, message, fault=fault, first_failure=failed), None


def _reported(resume: ResumePoint, paths: RunPaths, start: SegmentStart, found: Segment) -> Segment:
    """Complete the segment that rank 0 reported."""
    new_checkpoint = saved_more(resume.after_segment(paths), start)
    crashes = crashes_before(paths, start.number, new_checkpoint)
    update: dict[str, object] = {"new_checkpoint": new_checkpoint, "crashes": crashes, **place_and_time(start)}
    if found.status is SegmentStatus.STOPPED and _signalled(paths):
        why = end_by_signal(start.job, start.restarts)
        update["message"] = why.message
        if why.fault is Fault.TIME_LIMIT:
            update["status"] = SegmentStatus.TIME_LIMIT
        elif why.fault is not None:
            update |= {"status": SegmentStatus.CRASHED, "fault": why.fault, "crashes": crashes + 1}
    return found.model_copy(update=update)


def _signalled(paths: RunPaths) -> bool:
    """Whether a signal to the launcher, and not a person's stop file, asked the training to stop."""
    stop = paths.control / STOP_FILE
    return stop.is_file() and stop.read_bytes() == BY_SIGNAL.encode()
