"""Watch a run from a small SLURM job that submits its own successor.

The job looks for conditions and writes PULSE lines, even if no workflow is alive. It does not get the token of the Hub,
so it cannot push logs. Each job submits the next one when it begins, with the dependency `singleton`: the next job
starts when this one ends, however it ends. So the chain continues after a killed job or a lost node.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from collections.abc import Sequence

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, ResourceError, TryAgainError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.look_loop import LookLoop

STOP_NAME = "stop-watching"
"""File in the run's folder `alerts` that ends the chain of jobs."""
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")
_SPARE_MINUTES = 10
"""Minutes by which a job's time limit exceeds the time for which it looks."""


def job_name(paths: RunPaths) -> str:
    """Return the name of the jobs that watch a run. It depends on the folder of the run, so it is the same on all
    nodes."""
    digest = hashlib.sha256(str(paths.run.resolve()).encode()).hexdigest()
    return f"bloomery-watch-{paths.run.resolve().name[:40]}-{digest[:8]}"


def alive_jobs(paths: RunPaths) -> list[slurm.QueuedJob]:
    """Return the running and pending jobs that watch a run.

    Raises:
        TryAgainError: the scheduler does not answer.
        ResourceError: SLURM is not on this machine.
    """
    return [job for job in slurm.queue(names=[job_name(paths)]) if job.is_alive]


def submit(paths: RunPaths, minutes: float, options: Sequence[str]) -> str | None:
    """Submit the next job, unless one is pending. Return its id, or None if one is pending already.

    Args:
        paths: paths of the run.
        minutes: time for which each job looks.
        options: options of sbatch, such as `--partition=small`. The successors get them too.

    Raises:
        TryAgainError: the scheduler does not answer or refuses the job.
        ResourceError: SLURM is not on this machine.
    """
    if any(job.state == "PENDING" for job in alive_jobs(paths)):
        return None
    log = paths.run / "logs" / "watch-job.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    again = [f"--job-minutes={minutes:g}", *(f"--option={each}" for each in options)]
    python = [sys.executable, "-m", "bloomery.cli", "watch", "--run", str(paths.run.resolve()), "--in-job", *again]
    command = [
        *("sbatch", "--parsable", f"--job-name={job_name(paths)}", "--dependency=singleton", "--ntasks=1"),
        *("--cpus-per-task=1", "--mem=1000M", f"--time={max(1, round(minutes + _SPARE_MINUTES))}"),
        *(f"--output={log.resolve()}", "--open-mode=append", "--requeue"),
        *options,
        # `env -u` keeps the token of the Hub out of the job, even if the site's settings pass it.
        f"--wrap=exec env {' '.join(f'-u {name}' for name in _TOKENS)} {shlex.join(python)}",
    ]
    environment = {name: value for name, value in os.environ.items() if name not in _TOKENS}
    return slurm.call(*command, environment=environment).strip().split(";")[0]


def is_stop_requested(paths: RunPaths) -> bool:
    """Return whether a person asked the chain of jobs to end."""
    return (paths.alerts / STOP_NAME).exists()


def watch_in_job(paths: RunPaths, minutes: float, options: Sequence[str]) -> None:
    """Watch a run inside a job: submit the successor, then look until the time is over.

    If the run has finished or a person asks for it, end the chain: cancel the successor and return.
    """
    loop, deadline, followed = LookLoop(paths), time.monotonic() + 60 * minutes, False
    while True:
        began = time.monotonic()
        if not followed and not is_stop_requested(paths):
            followed = _try_to_submit(paths, minutes, options)
        loop.look()
        if loop.finished.is_set() or is_stop_requested(paths):
            say(f"{utc_now()} the watch ends, because the run has finished or alerts/{STOP_NAME} exists")
            _cancel_successors(paths)
            return
        if began >= deadline:
            return
        time.sleep(max(0.0, min(loop.every_seconds(), deadline - began)))


def _try_to_submit(paths: RunPaths, minutes: float, options: Sequence[str]) -> bool:
    """Submit the successor. Return false if the scheduler does not accept it now; the caller tries again."""
    try:
        submit(paths, minutes, options)
    except (TryAgainError, ResourceError) as error:
        say(f"{utc_now()} the next job was not submitted: {error}")
        return False
    return True


def _cancel_successors(paths: RunPaths) -> None:
    own = slurm.own_job()
    try:
        waiting = [job.job for job in alive_jobs(paths) if job.job != own]
        if waiting:
            slurm.call("scancel", *waiting)
    except BloomeryError as error:
        say(f"{utc_now()} the next job was not cancelled: {error}; it ends by itself")
