"""Decide from SLURM's information why a segment's job ended: by a person's stop or by a fault."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError
from bloomery.contracts.segment import Fault

_FAULTS = {
    "TIMEOUT": Fault.TIME_LIMIT,
    "DEADLINE": Fault.TIME_LIMIT,
    "PREEMPTED": Fault.PREEMPTED,
    "NODE_FAIL": Fault.NODE,
    "BOOT_FAIL": Fault.NODE,
    "OUT_OF_MEMORY": Fault.MEMORY,
    "FAILED": Fault.PROCESS,
    "COMPLETED": Fault.PROCESS,
}
_CANCELLED = "CANCELLED"


@dataclass(frozen=True)
class JobEnd:
    """Why a job ended."""

    fault: Fault | None
    """The fault that ended the job. None if a person stopped the job."""
    message: str
    """What happened, as a sentence without a full stop."""


def end_by_signal(job: str | None, restarts: int) -> JobEnd:
    """Return why a launcher received SIGTERM or SIGINT. Call this while the launcher still runs.

    Outside a SLURM job, a signal is a person's stop, such as Ctrl-C.

    Args:
        job: id of the launcher's SLURM job; None outside SLURM.
        restarts: number of times that SLURM had requeued the job when the launcher began.
    """
    if job is None:
        return JobEnd(None, "a signal asked the training to stop")
    try:
        shown = slurm.show_job(job)
    except BloomeryError as error:
        return JobEnd(Fault.SIGNAL, f"job {job} received a signal, and the scheduler does not state why ({error.what})")
    if shown.get("Reason") == "TimeLimit":
        return JobEnd(Fault.TIME_LIMIT, f"SLURM ended job {job} at its time limit")
    if shown.get("PreemptTime", "None") != "None":
        return JobEnd(Fault.PREEMPTED, f"SLURM preempted job {job}")
    if _number(shown.get("Restarts")) > restarts:
        return JobEnd(Fault.PREEMPTED, f"SLURM requeued job {job}")
    if shown.get("JobState") in ("COMPLETING", _CANCELLED):
        return _cancelled(job)
    return JobEnd(Fault.SIGNAL, f"job {job} received a signal that is not from SLURM")


def end_by_state(job: str, state: str | None) -> JobEnd:
    """Return why a job ended whose launcher left no record.

    Args:
        job: id of the job.
        state: final state of the job that squeue showed; None if squeue has forgotten the job.
    """
    if state is None and (recorded := slurm.accounting_state(job)) is not None:
        state = recorded[0]
    if state == _CANCELLED:
        return _cancelled(job)
    fault = _FAULTS.get(state or "", Fault.LOST)
    ended = "ended, and SLURM does not remember how" if state is None else f"ended with the state {state}"
    return JobEnd(fault, f"job {job} {ended}, and its launcher left no record")


def _cancelled(job: str) -> JobEnd:
    """Return the end of a cancelled job. Only its owner and administrators may cancel a job.

    Without accounting, SLURM does not record who cancelled a job. The owner is then assumed.
    """
    recorded = slurm.accounting_state(job)
    who = recorded[1] if recorded is not None else None
    if who is not None and who != os.getuid():
        return JobEnd(Fault.CANCELLED, f"user {who} cancelled job {job}, which belongs to user {os.getuid()}")
    return JobEnd(None, f"job {job} was cancelled")


def restart_count(job: str) -> int:
    """Return how often SLURM has requeued a job.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    return _number(slurm.show_job(job).get("Restarts"))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
