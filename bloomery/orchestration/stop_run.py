"""Ask the training and the workflow of a run to end, and wait until they have."""

from __future__ import annotations

import os
import signal
import socket
import time

from bloomery.base import slurm
from bloomery.base.atomic import write_text
from bloomery.base.errors import BloomeryError
from bloomery.base.process_alive import alive_since
from bloomery.base.progress import say
from bloomery.contracts.lease import read_holder
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE
from bloomery.orchestration.run_lock import holder, is_locked
from bloomery.orchestration.slurm_jobs import TRAINING_RULE, jobs_alive
from bloomery.orchestration.stop_mark import mark_stopped

_POLL_SECONDS = 1.0
_SAY_EVERY_SECONDS = 30.0
_BY_PERSON = "bloomery stop\n"


def ask_to_stop(paths: RunPaths) -> list[str]:
    """Ask the training and the workflow to end. Return what was done, one sentence each."""
    mark_stopped(paths)
    done: list[str] = []
    if _lease_is_held(paths):
        # The training reads this file after each iteration.
        paths.control.mkdir(parents=True, exist_ok=True)
        write_text(paths.control / STOP_FILE, _BY_PERSON)
        done.append("the training saves a checkpoint after its current iteration and ends")
    done += _cancel_waiting(paths)
    if not done and is_locked(paths.run):
        done.append(_interrupt_workflow(paths))
    return done or ["neither a training nor a workflow of this run is alive"]


def trains(paths: RunPaths) -> bool:
    """Return whether a training of the run is alive or queued. Return true if the scheduler does not answer."""
    try:
        return _lease_is_held(paths) or any(job.rule == TRAINING_RULE for job in jobs_alive(paths))
    except BloomeryError:
        # The scheduler does not answer, so a training may wait in the queue.
        return True


def _lease_is_held(paths: RunPaths) -> bool:
    """Return whether the lease's file names a living process or job."""
    held = read_holder(paths.train)
    if held is None:
        return False
    found, since = held
    if found.job is not None and slurm.has_slurm():
        return slurm.is_alive(found.job)
    # A process of another machine may be alive.
    return alive_since(found.pid, found.host, since) is not False


def _cancel_waiting(paths: RunPaths) -> list[str]:
    """Cancel the training jobs that wait in the queue."""
    try:
        waiting = [job.job for job in jobs_alive(paths) if job.rule == TRAINING_RULE and job.state == "PENDING"]
        if waiting:
            slurm.call("scancel", *waiting)
            return [f"cancelled the waiting SLURM job{'s' * (len(waiting) > 1)} {' '.join(waiting)}"]
    except BloomeryError as error:
        return [f"cannot cancel the waiting jobs, which will end when they begin: {error}"]
    return []


def _interrupt_workflow(paths: RunPaths) -> str:
    """Send the signal of a Ctrl-C to the workflow."""
    found = holder(paths.run)
    if found is None:
        return "the workflow is not known, so it was not asked to end"
    if found.host != socket.gethostname():
        return f"the workflow runs on another machine; to end it, run on {found.host}: kill -INT {found.pid}"
    try:
        os.kill(found.pid, signal.SIGINT)
    except ProcessLookupError:
        return "the workflow has just ended"
    return f"the workflow (process {found.pid}) was asked to end its jobs"


def wait_until_stopped(paths: RunPaths) -> None:
    """Wait until neither a training nor a workflow of the run is alive."""
    said = time.monotonic()
    while trains(paths) or is_locked(paths.run):
        if time.monotonic() - said > _SAY_EVERY_SECONDS:
            said = time.monotonic()
            say("waiting until the training and the workflow have ended (Ctrl-C ends only the waiting)")
        time.sleep(_POLL_SECONDS)
