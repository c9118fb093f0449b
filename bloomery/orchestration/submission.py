"""Decide whether to repeat a failed submission, and find a job that SLURM accepted although sbatch failed."""

from __future__ import annotations

import re
from collections.abc import Container

from bloomery.base import slurm

_TEMPORARY = (
    "socket timed out",
    "unable to contact slurm controller",
    "unable to contact slurm database",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connect failure",
    "transport endpoint is not connected",
    "zero bytes were transmitted or received",
    "slurm_receive_msg",
    "slurm temporarily unable to accept job",
    "slurm backup controller in standby mode",
    "slurmctld running in standby mode",
    "resource temporarily unavailable",
    "unexpected message received",
    "message receive failure",
    "communication connection failure",
    "no answer within",
)
"""Parts of messages (in lower case) with which sbatch and squeue fail while slurmctld or the network is down. Source:
SLURM's table of errors, src/common/slurm_errno.c."""


def is_temporary(message: str) -> bool:
    """Return whether a submission failed because the scheduler did not answer, so that a repetition can succeed.

    Other failures are refusals, such as an unknown partition or a limit that the job exceeds. A repetition would fail
    in the same way.
    """
    lower = message.lower()
    return any(part in lower for part in _TEMPORARY)


def refusal(message: str) -> str:
    """Return the sentence of sbatch in the message of Snakemake's SLURM executor, which also contains the command."""
    found = re.search(r"The error message was '(?:sbatch: error: )?(.*?)'\.\n", message, re.DOTALL)
    said = found.group(1) if found else message
    return f"SLURM refused the job: {' '.join(said.replace('sbatch: error: ', '').split())}"


def submitted_job(name: str, comment: str, command: str, known: Container[str]) -> slurm.QueuedJob | None:
    """Return the job that runs `command`, or None if the queue lists no such job.

    Args:
        name: name of the job.
        comment: comment of the job. Several jobs can have the same comment.
        command: shell command that was passed to sbatch.
        known: ids of jobs that run other commands.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    for job in slurm.queue(names=[name]):
        if job.comment == comment and job.job not in known and command in slurm.batch_script(job.job):
            return job
    return None
