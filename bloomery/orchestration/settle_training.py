"""Connect the workflow's rule of a training segment with the SLURM jobs and the records of the segment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bloomery.base import slurm
from bloomery.contracts.next_job import read_options, write_options
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.slurm_jobs import TRAINING_RULE, jobs_alive, workflow_names
from bloomery.orchestration.training_job import sbatch_options


def segment_number(job: Any) -> int | None:
    """Return the number of the segment that a job of Snakemake trains. Return None for every other job."""
    return int(job.wildcards.n) if not job.is_group() and job.rule.name == TRAINING_RULE else None


def run_of(job: Any) -> RunPaths:
    """Return the paths of the run that a training job of Snakemake belongs to."""
    return RunPaths(Path(str(job.params.run)))


def training_comment(number: int) -> str:
    """Return the comment of the SLURM job of segment `number`, as Snakemake's executor writes it."""
    return f"rule_{TRAINING_RULE}_wildcards_{number}"


def renew_options(paths: RunPaths, job: Any) -> None:
    """Make the chain of segments use the resources of this workflow's job.

    If an earlier workflow used other options of sbatch, the training jobs that still wait in the queue are cancelled.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    options = tuple(sbatch_options(job.resources))
    before = read_options(paths)
    if before == options:
        return
    if before is not None:
        waiting = [each.job for each in jobs_alive(paths) if each.rule == TRAINING_RULE and each.state == "PENDING"]
        if waiting:
            slurm.call("scancel", *waiting)
    write_options(paths, options)


def live_training_job(paths: RunPaths, number: int) -> slurm.QueuedJob | None:
    """Return the job in the queue that trains or will train segment `number` of a run.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    return live_job_of_segment(workflow_names(paths), number)


def live_job_of_segment(names: Iterable[str], number: int) -> slurm.QueuedJob | None:
    """Return the live job with one of these names that trains segment `number`. Return None if no such job is alive.

    A running job is preferred to a pending one.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    comment = training_comment(number)
    found = [job for job in slurm.queue(names=names) if job.is_alive and job.comment == comment]
    return min(found, key=lambda job: job.state == "PENDING", default=None)


def settle(job: Any, slurm_job: str, state: str | None) -> str | None:
    """Record how the SLURM job of a training segment ended, if its launcher did not.

    Args:
        job: job of Snakemake.
        slurm_job: id of the SLURM job.
        state: final state of the SLURM job; None if the scheduler has forgotten the job.

    Returns:
        The reason why the chain of segments must not continue. None if the segment's file exists.
    """
    command = [
        *(sys.executable, "-m", "bloomery.cli", "train", "settle"),
        *("--config", str(job.input.config), "--run", str(job.params.run), "--number", str(job.wildcards.n)),
        *("--output", str(job.output[0]), "--job", slurm_job, *(("--state", state) if state else ())),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"`bloomery train settle` ended with code {done.returncode}"
