"""What SLURM says about a cluster. Parsing is pure; the calls are thin, and none of them is needed for a cluster that
keeps no accounts."""

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
"""Partition, availability, time limit, nodes, CPUs, memory (MB) and generic resources of a node."""

PROFILE = Path(__file__).resolve().parents[2] / "workflow" / "profiles" / "slurm"
_POLL_SECONDS = 40
"""The executor's own default."""
_POLLS_IN_A_JOB_AGE = 3


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that are alike."""

    nodes: int
    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True)
class Partition:
    """A partition of the cluster."""

    name: str
    is_default: bool
    is_up: bool
    max_minutes: int | None
    """Longest job; None: no limit."""
    kinds: tuple[NodeKind, ...]
    """Its nodes, most GPUs first, then most nodes."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(kind.nodes for kind in self.kinds)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node; of the best kind where nodes differ."""
        return self.kinds[0].gpus if self.kinds else 0

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(kind.nodes * kind.gpus for kind in self.kinds)


@dataclass(frozen=True)
class Cluster:
    """What was found on this machine."""

    name: str
    partitions: tuple[Partition, ...]
    accounts: tuple[str, ...]
    """Accounts that the user may charge; empty where SLURM keeps none."""
    accounting: bool
    min_job_age_seconds: float | None
    """How long slurmctld remembers a job that has ended (0: for ever, but see `job_age_problem`); None: not known."""

    def partition(self, name: str) -> Partition | None:
        """The partition of that name; of several (`a,b`) the first."""
        first = name.split(",")[0]
        return next((each for each in self.partitions if each.name == first), None)


def gpus_of(gres: str) -> int:
    """GPUs in a node's generic resources, such as `gpu:a100:8(S:0-1),nvme:1`."""
    entries = re.sub(r"\([^)]*\)", "", gres).split(",")
    fields = [entry.strip().split(":") for entry in entries]
    return sum(int(each[-1]) if each[-1].isdigit() else 1 for each in fields if each[0] == "gpu")


def _number(text: str) -> int:
    # `4+` stands for several values, the least of them first.
    found = re.match(r"\d+", text)
    return int(found.group()) if found else 0


def parse_partitions(text: str) -> list[Partition]:
    """Partitions in `sinfo --noheader --exact --format=SINFO_FORMAT`, in SLURM's order; one line a kind of node."""
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
    """`scontrol show config` as a mapping."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def parse_accounts(text: str) -> list[str]:
    """Accounts in `sacctmgr -nP show assoc user=... format=account`, each once, in its order."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def cluster_from(partitions: str, settings: str, accounts: str = "") -> Cluster:
    """A cluster from what the three programs print."""
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
    # `accounting_storage/none`, in newer versions `(null)`.
    return "slurmdbd" in settings.get("AccountingStorageType", "")


def settings_of_cluster() -> str:
    """`scontrol show config`. Raises what `bloomery.base.slurm.call` raises."""
    return call("scontrol", "show", "config")


def detect() -> Cluster:
    """The cluster of this machine.

    Raises:
        ResourceError: SLURM's client programs are not here.
        TryAgainError: the scheduler does not answer.
    """
    if shutil.which("sinfo") is None:
        raise ResourceError("no `sinfo`: SLURM is not on this machine", expected="a login node of the cluster")
    settings = settings_of_cluster()
    accounts = ""
    if _keeps_accounts(parse_settings(settings)) and shutil.which("sacctmgr"):
        try:
            accounts = call("sacctmgr", "-nP", "show", "assoc", f"user={getpass.getuser()}", "format=account")
        except BloomeryError:
            accounts = ""  # the data base may be down or closed to users; the person is asked
    return cluster_from(call("sinfo", "--noheader", "--exact", f"--format={SINFO_FORMAT}"), settings, accounts)


def loaded_modules(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Environment modules that are loaded here, in order."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


def scratch_folder(environment: Mapping[str, str] = os.environ) -> str | None:
    """The variable, as `${NAME}`, that names the user's fast folder; None when none of the usual ones is set."""
    names = ("SCRATCH", "WORK")
    return next((f"${{{name}}}" for name in names if environment.get(name, "").startswith("/")), None)


def poll_seconds(profile: Path = PROFILE) -> int:
    """First waiting time between two looks at the queue, as the workflow's SLURM profile has it."""
    import yaml

    # Snakemake reads `profile.yaml` (also with a version in the name) or `config.yaml`.
    for path in sorted(profile.glob("profile*.yaml"), reverse=True) + sorted(profile.glob("config*.yaml")):
        value: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        seconds = (value or {}).get("slurm-init-seconds-before-status-checks")
        if isinstance(seconds, int):
            return seconds
    return _POLL_SECONDS


def job_age_problem(min_job_age_seconds: float | None, poll: int) -> str | None:
    """What is wrong when slurmctld forgets jobs too soon; None when all is well.

    The executor asks squeue for jobs that have ended. Where MinJobAge is less than three of its waiting times it asks
    sacct instead, which needs accounting: without, it waits for ever. It takes 0 (SLURM's "never") for too little.
    """
    if min_job_age_seconds is None or min_job_age_seconds >= _POLLS_IN_A_JOB_AGE * poll:
        return None
    seconds = int(min_job_age_seconds // _POLLS_IN_A_JOB_AGE)
    advice = f"use --slurm-init-seconds-before-status-checks {seconds}, or ask" if seconds else "ask"
    return (
        f"MinJobAge is {min_job_age_seconds:.0f} s, less than {_POLLS_IN_A_JOB_AGE} x {poll} s: Snakemake would turn "
        f"from squeue to sacct and may wait for ever; {advice} the site for MinJobAge=300"
    )
