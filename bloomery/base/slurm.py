"""The scheduler client: SLURM's information about jobs and nodes.

This information is only a hint; the run's files are authoritative. Every call has a time limit, because `squeue` hangs
for seconds if slurmctld is down.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from bloomery.base.errors import ResourceError, TryAgainError

_CALL_SECONDS = 30
_RESPONDS = "a scheduler that accepts this command; check with `sinfo` that it responds, and try again later"
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED"),
        *("TIMEOUT",),
    }
)
"""Final states of a job. PREEMPTED is not one of them, because a preempted job may be requeued."""

_UNUSABLE = re.compile(r"down|drain|fail|maint|future|power_down|[*]", re.IGNORECASE)
"""States of a node that cannot run jobs. An asterisk means that the node does not respond."""


@dataclass(frozen=True)
class QueuedJob:
    """A job as the queue lists it."""

    job: str
    name: str
    """Job name, to which Snakemake's SLURM executor writes its run id."""
    comment: str
    """Comment of the job. For Snakemake's jobs it is `rule_<name>_wildcards_<values>` or `group_<name>_...`."""
    state: str
    time_left: float | None
    """Seconds until the time limit; None if the job has no limit or the limit is unknown."""
    nodes: int
    reason: str
    """Why the job is waiting, or the nodes on which it runs."""
    start: str
    """Actual or expected start: local time in ISO 8601, or `N/A` if the scheduler does not know it."""
    submitted: str = "N/A"
    """Time when the job was submitted, in the same form as `start`."""

    @property
    def rule(self) -> str:
        """Snakemake rule or group that the job runs. For other jobs it is the whole comment."""
        found = re.fullmatch(r"(?:rule|group)_(.+?)(?:_wildcards_.*)?", self.comment, re.DOTALL)
        return found.group(1) if found else self.comment

    @property
    def is_alive(self) -> bool:
        """Whether the job runs or will run."""
        return self.state not in _ENDED


@dataclass(frozen=True)
class ClusterNode:
    """A node in one of its partitions, as `sinfo` lists it."""

    name: str
    state: str
    partition: str
    in_default_partition: bool

    @property
    def is_usable(self) -> bool:
        """Whether the node runs jobs now or later. Nodes that are down, drained or failing do not."""
        return not _UNUSABLE.search(self.state)


def has_slurm() -> bool:
    """Return whether SLURM's client programs are installed on this machine."""
    return shutil.which("squeue") is not None


def own_job() -> str | None:
    """Return the id of the job that this process runs in, or None outside a job."""
    return os.environ.get("SLURM_JOB_ID")


def own_node() -> str | None:
    """Return SLURM's name of the node on which this process runs. Return None outside of a job's step.

    The host name may differ from SLURM's name of the node.
    """
    return os.environ.get("SLURMD_NODENAME")


def call(*command: str, script: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a SLURM client program and return its output.

    Args:
        command: program and arguments.
        script: text for the program's standard input. None for no input.
        environment: environment variables of the program. None for those of this process.

    Raises:
        ResourceError: the program is not installed.
        TryAgainError: the program failed or did not respond in time.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_CALL_SECONDS,
            env=environment,
            **({"stdin": subprocess.DEVNULL} if script is None else {"input": script}),
        )
    except FileNotFoundError as error:
        raise ResourceError(
            "no such program",
            where=command[0],
            expected="SLURM's client programs on PATH; run the command on a login node of the cluster",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(
            f"no answer within {_CALL_SECONDS} s", where=" ".join(command), expected=_RESPONDS
        ) from error
    if done.returncode:
        reason = done.stderr.strip() or f"the program ended with code {done.returncode}"
        raise TryAgainError(reason, where=" ".join(command), expected=_RESPONDS)
    return done.stdout


def parse_duration(text: str) -> float | None:
    """Return the seconds of SLURM's `[days-][hours:]minutes:seconds`. Return None for UNLIMITED, NOT_SET, INVALID and
    similar values."""
    found = re.fullmatch(r"\s*(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)\s*", text)
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def queue(*, names: Iterable[str] = (), jobs: Iterable[str] = ()) -> list[QueuedJob]:
    """Return the jobs with one of these names or ids, including jobs that ended recently (slurmctld keeps them for
    MinJobAge seconds)."""
    selection = [f"--{key}={','.join(values)}" for key, values in (("name", names), ("jobs", jobs)) if values]
    if not selection:
        return []
    fields = ("%i", "%j", "%k", "%T", "%L", "%D", "%R", "%S", "%V")
    lines = call("squeue", "--noheader", "--states=all", "--format=" + "\t".join(fields), *selection).splitlines()
    found = []
    for line in lines:
        job, name, comment, state, left, nodes, reason, start, submitted = (part.strip() for part in line.split("\t"))
        count = int(nodes) if nodes.isdigit() else 0
        found.append(QueuedJob(job, name, comment, state, parse_duration(left), count, reason, start, submitted))
    return found


def batch_script(job: str) -> str:
    """Return the script of a job. Return an empty text if the job has ended and slurmctld no longer keeps its script.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    try:
        return call("scontrol", "write", "batch_script", job, "-")
    except TryAgainError as error:
        if "job id" in error.what.lower():
            return ""
        raise


def is_alive(job: str) -> bool:
    """Return whether a job runs or waits.

    Raises:
        TryAgainError: the scheduler does not respond.
    """
    try:
        return any(each.is_alive for each in queue(jobs=[job]))
    except TryAgainError as error:
        if "Invalid job id" in error.what:
            return False
        raise


def show_job(job: str) -> dict[str, str]:
    """Return the fields that `scontrol show job` prints about a job that slurmctld still remembers.

    The values of a few fields contain spaces. Only the part before the first space is returned.

    Raises:
        TryAgainError: the scheduler does not answer, or does not remember the job.
    """
    words = call("scontrol", "show", "job", "--oneliner", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def accounting_state(job: str) -> tuple[str, int | None] | None:
    """Return the state of a job in SLURM's accounting, and the user who cancelled the job (a uid), if known.

    The records can be seconds behind slurmctld, and minutes after slurmdbd was away. A job that was cancelled meanwhile
    is first missing (None), then `CANCELLED` without a user, and later `CANCELLED` by a user.

    Raises:
        ResourceError: `sacct` is not installed.
        TryAgainError: the cluster keeps no accounting records, or slurmdbd does not answer.
    """
    lines = call("sacct", "-X", "--noheader", "--parsable2", f"--jobs={job}", "--format=State").splitlines()
    found = re.fullmatch(r"(\w+)(?: by (\d+))?", lines[-1].strip()) if lines else None
    return (found.group(1), int(found.group(2)) if found.group(2) else None) if found else None


def final_state(job: str) -> str | None:
    """Return the state of a job as squeue shows it. Return None if squeue does not list the job or does not answer."""
    try:
        found = queue(jobs=[job])
    except TryAgainError:
        return None
    return found[0].state if found else None


def node_names(job: str) -> tuple[str, ...]:
    """Return the names of a running job's nodes, in SLURM's order."""
    listed = call("squeue", "--noheader", f"--jobs={job}", "--format=%N").strip()
    return tuple(call("scontrol", "show", "hostnames", listed).split()) if listed else ()


def cluster_nodes() -> list[ClusterNode]:
    """Return all nodes of the cluster. A node of several partitions is listed once for each partition.

    Raises:
        ResourceError: SLURM's client programs are not installed.
        TryAgainError: the scheduler does not respond.
    """
    rows = (line.split() for line in call("sinfo", "--all", "--noheader", "--Node", "--format=%N %T %P").splitlines())
    # sinfo writes an asterisk after the name of the default partition.
    return [ClusterNode(name, state, where.rstrip("*"), where.endswith("*")) for name, state, where in rows]


def seconds_left(job: str) -> float | None:
    """Return the seconds until a running job's time limit, or None if it has no limit."""
    return parse_duration(call("squeue", "--noheader", f"--jobs={job}", "--format=%L"))


def parse_time(text: str) -> datetime | None:
    """Return a time that squeue prints: local time in ISO 8601. Return None for `N/A` and other texts."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        return None


def submit_time(job: str) -> datetime | None:
    """Return the time when a job was submitted. Return None if the scheduler states no time.

    Raises:
        TryAgainError: the scheduler does not answer, or it does not know the job.
    """
    return parse_time(call("squeue", "--noheader", f"--jobs={job}", "--format=%V"))


def first_node_address(job: str) -> str:
    """Return the address of a running job's first node, from the cluster's own configuration.

    DNS may not know the name of a node, and a rendezvous at an unknown name waits forever.
    """
    first = node_names(job)[0]
    shown = call("scontrol", "show", "node", "--oneliner", first)
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    return found.group(1) if found else first
