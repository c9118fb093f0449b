"""Find a run that does not continue: neither running nor queued, too long in the queue, or crashing repeatedly."""

from __future__ import annotations

from bloomery.base.units import format_seconds
from bloomery.detect.finding import Finding, Kind, Severity


def idle(quiet_seconds: float, idle_minutes: float, reason: str) -> Finding | None:
    """Return a finding if an unfinished run has been neither running nor queued for too long.

    Args:
        quiet_seconds: time since the last sign of the run.
        idle_minutes: limit after which the run is reported, in minutes.
        reason: why the run ended, as a sentence; empty if it is not known.
    """
    if quiet_seconds <= 60 * idle_minutes:
        return None
    what = f"The run has been neither running nor queued for {format_seconds(quiet_seconds)}, and is not finished."
    return Finding(Kind.IDLE, Severity.CRITICAL, f"{what} {reason}".strip())


def queue_age(job: str, waiting_seconds: float, reason: str, queue_hours: float) -> Finding | None:
    """Return a finding if a training job has waited in the queue for too long.

    Args:
        job: id of the job.
        waiting_seconds: time since the job was submitted.
        reason: SLURM's reason why the job waits.
        queue_hours: limit after which the job is reported, in hours.
    """
    if waiting_seconds <= 3600 * queue_hours:
        return None
    what = f"The training job {job} has waited in the queue for {format_seconds(waiting_seconds)}"
    return Finding(Kind.QUEUE_AGE, Severity.WARNING, f"{what} (reason of SLURM: {reason or 'none'}).")


def scheduler_away(note: str, scheduler_minutes: float) -> Finding:
    """Return the finding that the scheduler does not answer. It is reported only after `scheduler_minutes`."""
    what = f"The run's jobs cannot be listed: {note}."
    return Finding(Kind.SCHEDULER, Severity.WARNING, what, hold_seconds=60 * scheduler_minutes)


def crashed(segment: int, iteration: int, message: str) -> Finding:
    """Return the finding that a segment ended by a fault, and that no iteration was completed since.

    Args:
        segment: number of the segment.
        iteration: last iteration that the segment completed.
        message: message of the segment's record.
    """
    text = " ".join(message.split()).rstrip(".")
    what = f"Segment {segment} ended by a fault after iteration {iteration}" + (f": {text}." if text else ".")
    return Finding(Kind.CRASH, Severity.WARNING, what)


def crash_budget(crashes: int, max_crashes: int, starts: int, max_starts: int) -> Finding | None:
    """Return a finding if one more crash, or one more start without a new checkpoint, ends the training.

    Args:
        crashes: number of crashes since the last new checkpoint.
        max_crashes: largest number of crashes without a new checkpoint (`training.segment.max_crashes`).
        starts: number of starts since the last new checkpoint.
        max_starts: largest number of starts without a new checkpoint.
    """
    if 0 < max_crashes <= crashes:
        what = (
            f"The training has crashed {crashes} times since its last new checkpoint. One more crash without a new "
            "checkpoint ends the training."
        )
    elif starts >= max_starts > 1:
        what = (
            f"The training has been started {starts} times since its last new checkpoint. One more start without a new "
            "checkpoint ends the training."
        )
    else:
        return None
    return Finding(Kind.CRASH_BUDGET, Severity.CRITICAL, what)
