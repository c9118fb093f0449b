"""Record the start of a segment's launcher, and when its SLURM job was submitted."""

from __future__ import annotations

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError
from bloomery.base.times import utc_text
from bloomery.contracts.launches import Launch, append_launch
from bloomery.contracts.paths import RunPaths


def record_launch(paths: RunPaths, number: int, started: str) -> None:
    """Record that the launcher of segment `number` began at `started` (UTC, ISO 8601).

    The submission of its job is left out if the scheduler does not answer.

    Raises:
        ResourceError: train/launches.jsonl cannot be written.
    """
    job = slurm.own_job()
    append_launch(paths, Launch(segment=number, started=started, submitted=_submitted(job), job=job))


def _submitted(job: str | None) -> str | None:
    try:
        moment = slurm.submit_time(job) if job is not None and slurm.has_slurm() else None
    except BloomeryError:
        # The time is only needed for the use of the training's time.
        return None
    return None if moment is None else utc_text(moment)
