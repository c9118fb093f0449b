"""Decide from SLURM's state of a job, and from the job's output files, whether the job has ended and how."""

from __future__ import annotations

from enum import StrEnum

_SUCCESSFUL = "COMPLETED"
_FAILED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}
)
_LOOKS = 3
"""If this many successive answers of the scheduler do not list a job, the scheduler has forgotten the job."""


class Outcome(StrEnum):
    """State of a submitted job for the workflow."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FORGOTTEN = "forgotten"
    """The scheduler no longer lists the job. The output files decide whether the job succeeded."""


def outcome(state: str | None, looks_without: int) -> Outcome:
    """Return the outcome of a job.

    Args:
        state: state that squeue shows, such as `RUNNING`; None if squeue does not list the job.
        looks_without: number of successive answers that did not list the job, including the last one.
    """
    if state is None:
        return Outcome.FORGOTTEN if looks_without >= _LOOKS else Outcome.ACTIVE
    if state == _SUCCESSFUL:
        return Outcome.SUCCEEDED
    return Outcome.FAILED if state in _FAILED else Outcome.ACTIVE
