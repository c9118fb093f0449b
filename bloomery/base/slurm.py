"""The scheduler client: what SLURM says about jobs and nodes. A hint, never the truth: that is in the run's files.

Every call has a time limit: `squeue` hangs for seconds where slurmctld is down.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from bloomery.base.errors import ResourceError, TryAgainError

_CALL_SECONDS = 30
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED"),
        *("TIMEOUT",),
    }
)
"""States that a job does not leave. PREEMPTED is not among them: such a job may be requeued."""


@dataclass(frozen=True)
class QueuedJob:
    """A job as the queue shows it."""

    job: str
    name: str
    """Job name: Snakemake's SLURM executor writes its run's id there."""
    comment: str
    """`rule_<name>_wildcards_<values>` or `group_<name>_...` for such jobs."""
    state: str
    time_left: float | None
    """Seconds; None when there is no limit or it is not known."""
    nodes: int
    reason: str
    """Why it waits, or the nodes where it runs."""
    start: str
    """When it started or is expected to: local time, ISO 8601; `N/A` when the scheduler does not know."""

    @property
    def rule(self) -> str:
        """Snakemake's rule or group that it runs; the whole comment of a job that is none of Snakemake's."""
        found = re.fullmatch(r"(?:rule|group)_(.+?)(?:_wildcards_.*)?", self.comment, re.DOTALL)
        return found.group(1) if found else self.comment

    @property
    def is_alive(self) -> bool:
        """Whether it runs or will run."""
        return self.state not in _ENDED


def has_slurm() -> bool:
    """Whether the client programs are on this machine."""
    return shutil.which("squeue") is not None


def own_job() -> str | None:
    """Id of the job that this process runs in; None outside."""
    return os.environ.get("SLURM_JOB_ID")


def call(*command: str) -> str:
    """Output of a SLURM client program.

    Raises:
        ResourceError: there is no such program.
        TryAgainError: it failed or gave no answer in time.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CALL_SECONDS)
    except FileNotFoundError as error:
        raise ResourceError("no such program", where=command[0], expected="SLURM's client programs on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(f"no answer within {_CALL_SECONDS} s", where=" ".join(command)) from error
    if done.returncode:
        raise TryAgainError(done.stderr.strip() or f"ended with code {done.returncode}", where=" ".join(command))
    return done.stdout


def parse_duration(text: str) -> float | None:
    """Seconds of SLURM's `[days-][hours:]minutes:seconds`; None for UNLIMITED, NOT_SET, INVALID and the like."""
    found = re.fullmatch(r"\s*(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)\s*", text)
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def queue(*, names: Iterable[str] = (), jobs: Iterable[str] = ()) -> list[QueuedJob]:
    """Jobs with one of these names or ids, those that ended lately too (slurmctld keeps them MinJobAge seconds)."""
    selection = [f"--{key}={','.join(values)}" for key, values in (("name", names), ("jobs", jobs)) if values]
    if not selection:
        return []
    fields = ("%i", "%j", "%k", "%T", "%L", "%D", "%R", "%S")
    lines = call("squeue", "--noheader", "--states=all", "--format=" + "\t".join(fields), *selection).splitlines()
    found = []
    for line in lines:
        job, name, comment, state, left, nodes, reason, start = (part.strip() for part in line.split("\t"))
        count = int(nodes) if nodes.isdigit() else 0
        found.append(QueuedJob(job, name, comment, state, parse_duration(left), count, reason, start))
    return found


def is_alive(job: str) -> bool:
    """Whether a job runs or waits. Raises TryAgainError when the scheduler does not answer."""
    try:
        return any(each.is_alive for each in queue(jobs=[job]))
    except TryAgainError as error:
        if "Invalid job id" in error.what:
            return False
        raise


def seconds_left(job: str) -> float | None:
    """Time until a running job's limit; None when it has none."""
    return parse_duration(call("squeue", "--noheader", f"--jobs={job}", "--format=%L"))


def first_node_address(job: str) -> str:
    """Address of a running job's first node, as the cluster's own configuration has it.

    A node's name need not resolve, and a rendezvous with such a name waits for ever.
    """
    node_list = call("squeue", "--noheader", f"--jobs={job}", "--format=%N").strip()
    first = call("scontrol", "show", "hostnames", node_list).split()[0]
    shown = call("scontrol", "show", "node", "--oneliner", first)
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    return found.group(1) if found else first
