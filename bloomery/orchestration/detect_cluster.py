"""Detect a cluster's partitions, accounts and settings with SLURM's client programs.

The functions that parse are pure. `sacctmgr` is called only if the cluster keeps accounting records.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.slurm import call, parse_duration

SINFO_FORMAT = "%P|%a|%l|%D|%c|%m|%G"
"""Columns: partition, availability, time limit and number of nodes; CPUs, memory (MB) and GRES of each node."""

PROFILE = Path(__file__).resolve().parents[2] / "workflow" / "profiles" / "slurm"
_POLL_SECONDS = 40
"""Default of Snakemake's SLURM executor for the first wait between two status checks."""
_POLLS_IN_A_JOB_AGE = 3


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that have equal resources."""

    nodes: int
    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True)
class Partition:
    """One SLURM partition."""

    name: str
    is_default: bool
    is_up: bool
    max_minutes: int | None
    """Longest allowed job in minutes; None if there is no limit."""
    kinds: tuple[NodeKind, ...]
    """Kinds of nodes, sorted by the number of GPUs and then by the number of nodes, largest first."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(kind.nodes for kind in self.kinds)

    @property
    def gpus_per_node(self) -> int:
        """Number of GPUs of one node; the largest number if the nodes differ."""
        return self.kinds[0].gpus if self.kinds else 0

    @property
    def gpus(self) -> int:
        """Number of GPUs of all nodes together."""
        return sum(kind.nodes * kind.gpus for kind in self.kinds)


@dataclass(frozen=True)
class Cluster:
    """The cluster that was detected from this machine."""

    name: str
    partitions: tuple[Partition, ...]
    accounts: tuple[str, ...]
    """Accounts that the user may charge; empty if SLURM keeps no accounts or does not list them."""
    accounting: bool
    """Whether SLURM keeps accounting records."""
    min_job_age_seconds: float | None
    """Seconds for which slurmctld remembers an ended job. 0 means for ever (see `job_age_problem`); None means
    unknown."""

    def partition(self, name: str) -> Partition | None:
        """Return the partition `name`, or the first one of a list such as `a,b`; None if there is no such partition."""
        first = name.split(",")[0]
        return next((each for each in self.partitions if each.name == first), None)


def gpus_of(gres: str) -> int:
    """Count the GPUs in a node's generic resources (GRES), such as `gpu:a100:8(S:0-1),nvme:1`."""
    entries = re.sub(r"\([^)]*\)", "", gres).split(",")
    fields = [entry.strip().split(":") for entry in entries]
    return sum(int(each[-1]) if each[-1].isdigit() else 1 for each in fields if each[0] == "gpu")


def _number(text: str) -> int:
    # sinfo prints `4+` if the nodes differ and 4 is the smallest value.
    found = re.match(r"\d+", text)
    return int(found.group()) if found else 0


def parse_partitions(text: str) -> list[Partition]:
    """Parse the output of `sinfo --noheader --exact --format=SINFO_FORMAT`, which has one line per kind of node.

    The partitions keep SLURM's order.
    """
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == len(SINFO_FORMAT.split("|")):
            rows.setdefault(fields[0], []).append(fields)
    found = []
    for name, lines in rows.items():
        kinds = [NodeKind(_number(row[3]), _number(row[4]), _number(row[5]), gpus_of(row[6])) for row in lines]
        seconds = parse_duration(lines[0][2])
        found.append(
            Partition(
                name=name.removesuffix("*"),
                is_default=name.endswith("*"),
                is_up=lines[0][1] == "up",
                max_minutes=None if seconds is None else max(1, int(seconds // 60)),
                kinds=tuple(sorted(kinds, key=lambda kind: (-kind.gpus, -kind.nodes))),
            )
        )
    return found


def parse_settings(text: str) -> dict[str, str]:
    """Parse the output of `scontrol show config`."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def parse_accounts(text: str) -> list[str]:
    """Parse the output of `sacctmgr -nP show assoc user=... format=account`; drop repeated accounts."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def cluster_from(partitions: str, settings: str, accounts: str = "") -> Cluster:
    """Build a cluster from the output of sinfo, `scontrol show config` and sacctmgr."""
    values = parse_settings(settings)
    age = re.match(r"\d+", values.get("MinJobAge", ""))
    return Cluster(
        name=values.get("ClusterName", ""),
        partitions=tuple(parse_partitions(partitions)),
        accounts=tuple(parse_accounts(accounts)),
        accounting=_keeps_accounts(values),
        min_job_age_seconds=float(age.group()) if age else None,
    )


def _keeps_accounts(settings: Mapping[str, str]) -> bool:
    # Without accounting, SLURM prints `accounting_storage/none`; newer versions print `(null)`.
    return "slurmdbd" in settings.get("AccountingStorageType", "")


def settings_of_cluster() -> str:
    """Return the output of `scontrol show config`. Raises the errors of `bloomery.base.slurm.call`."""
    return call("scontrol", "show", "config")


def detect() -> Cluster:
    """Detect the cluster of this machine.

    Raises:
        ResourceError: SLURM's client programs are not on this machine.
        TryAgainError: the scheduler does not answer.
    """
    if shutil.which("sinfo") is None:
        raise ResourceError(
            "the program `sinfo` is missing, so SLURM is not on this machine",
            expected="run this command on a login node of the cluster",
        )
    settings = settings_of_cluster()
    accounts = ""
    if _keeps_accounts(parse_settings(settings)) and shutil.which("sacctmgr"):
        try:
            accounts = call("sacctmgr", "-nP", "show", "assoc", f"user={getpass.getuser()}", "format=account")
        except BloomeryError:
            # The accounting database may be down or closed to users. Then `cluster init` cannot propose an account.
            accounts = ""
    return cluster_from(call("sinfo", "--noheader", "--exact", f"--format={SINFO_FORMAT}"), settings, accounts)


def loaded_modules(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the environment modules that are loaded in `environment`, in order."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


def scratch_folder(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the variable, written `${NAME}`, that holds the user's folder on a fast disk; None if no usual one is
    set."""
    names = ("SCRATCH", "WORK")
    return next((f"${{{name}}}" for name in names if environment.get(name, "").startswith("/")), None)


def poll_seconds(profile: Path = PROFILE) -> int:
    """Return the first wait, in seconds, between two status checks, as set in the workflow's SLURM profile."""
    import yaml

    # Snakemake reads `profile.yaml` (possibly with a version in the name) or `config.yaml`.
    for path in sorted(profile.glob("profile*.yaml"), reverse=True) + sorted(profile.glob("config*.yaml")):
        value: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        seconds = (value or {}).get("bloomery-slurm-init-seconds-before-status-checks")
        if isinstance(seconds, int):
            return seconds
    return _POLL_SECONDS


def job_age_problem(min_job_age_seconds: float | None, poll: int) -> str | None:
    """Return a message if slurmctld forgets ended jobs too soon for the executor; None if there is no problem.

    The executor asks squeue about ended jobs. If MinJobAge is shorter than three waits (`poll` seconds each), it asks
    sacct instead. sacct needs accounting; without accounting the executor waits for ever. A MinJobAge of 0 means
    "never forget" in SLURM, but the executor treats it as too short.
    """
    if min_job_age_seconds is None or min_job_age_seconds >= _POLLS_IN_A_JOB_AGE * poll:
        return None
    seconds = int(min_job_age_seconds // _POLLS_IN_A_JOB_AGE)
    advice = (
        f"start snakemake with --bloomery-slurm-init-seconds-before-status-checks {seconds}, or ask"
        if seconds
        else "ask"
    )
    return (
        f"MinJobAge is {min_job_age_seconds:.0f} s, less than {_POLLS_IN_A_JOB_AGE} x {poll} s, the time of "
        f"{_POLLS_IN_A_JOB_AGE} status checks: Snakemake would ask sacct instead of squeue and may wait for ever for "
        f"jobs that have ended; {advice} the administrators for MinJobAge=300 in slurm.conf"
    )
