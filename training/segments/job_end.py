"""Decide from SLURM's information why a segment's job ended: by a person's stop or by a fault."""

from __future__ import annotations

import os
import time
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
_SIGNAL_SECONDS = 15.0
"""How long a launcher that received a signal waits for the accounting. After an outage of slurmdbd, slurmctld sends its
records within about 12 s. If SLURM kills the launcher before (KillWait, 30 s by default), `end_by_state` decides."""
_ENDED_SECONDS = 30.0
"""How long to wait for the accounting after a job has ended."""
_POLL_SECONDS = 0.5


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
    if shown.get("Reason") == "NodeDown":
        return JobEnd(Fault.NODE, f"a node of job {job} failed")
    if shown.get("JobState") in ("COMPLETING", _CANCELLED):
        return _cancelled(job, _recorded_end(job, _SIGNAL_SECONDS)[1])
    return JobEnd(Fault.SIGNAL, f"job {job} received a signal that is not from SLURM")


def end_by_state(job: str, state: str | None) -> JobEnd:
    """Return why a job ended whose launcher left no record.

    Args:
        job: id of the job.
        state: final state of the job that squeue showed; None if squeue has forgotten the job.
    """
    who = None
    if state in (None, _CANCELLED):
        recorded, who = _recorded_end(job, _ENDED_SECONDS)
        state = state or recorded
    if state == _CANCELLED:
        return _cancelled(job, who)
    fault = _FAULTS.get(state or "", Fault.LOST)
    ended = "ended, and SLURM does not remember how" if state is None else f"ended with the state {state}"
    return JobEnd(fault, f"job {job} {ended}, and its launcher left no record")


def _cancelled(job: str, who: int | None) -> JobEnd:
    """Return the end of a cancelled job. Only its owner and administrators may cancel a job.

    `who` is the user who cancelled the job, as a uid. None means that this is unknown, for example because the cluster
    keeps no accounting records. The owner is then assumed.
    """
    if who is not None and who != os.getuid():
        return JobEnd(Fault.CANCELLED, f"user {who} cancelled job {job}, which belongs to user {os.getuid()}")
    return JobEnd(None, f"job {job} was cancelled")


def _recorded_end(job: str, seconds: float) -> tuple[str | None, int | None]:
    """Return the final state of a job in SLURM's accounting, and the user who cancelled the job.

    Wait up to `seconds` until both are known, because the records are behind slurmctld. A part that is not known by
    then is None. If the cluster keeps no records or the accounting does not answer, both are None without a wait.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            recorded = slurm.accounting_state(job)
        except BloomeryError:
            return None, None
        state, who = recorded or (None, None)
        if who is not None or state in _FAULTS:
            return state, who
        if time.monotonic() > deadline:
            return (state if state == _CANCELLED else None), None
        time.sleep(_POLL_SECONDS)


def restart_count(job: str) -> int:
    """Return how often SLURM has requeued a job.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    return _number(slurm.show_job(job).get("Restarts"))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
