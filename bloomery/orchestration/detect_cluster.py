"""Detect a cluster's partitions, accounts and settings with SLURM's client programs.

The functions that parse are pure. `sacctmgr` is called only if the cluster keeps accounting records.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.slurm import call, parse_duration

SINFO_FORMAT = "%P|%a|%l|%D|%c|%m|%G"
"""Columns: partition, availability, time limit and number of nodes; CPUs, memory (MB) and GRES of each node."""
FEATURES_FORMAT = "%P|%f"
"""Columns: partition, and the features of its nodes, separated by commas."""


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
    features: frozenset[str] | None = None
    """Features of the nodes, which a constraint can name; None if they are not known."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(kind.nodes for kind in self.kinds)

    @property
    def gpus_per_node(self) -> int:
        """Number of GPUs of one node; the largest number if the nodes differ."""
        return self.kinds[0].gpus if self.kinds else 0

    @property
    def most_cpus(self) -> int:
        """Largest number of CPUs of a node; 0 if the partition has no nodes."""
        return max((kind.cpus for kind in self.kinds), default=0)

    @property
    def most_memory_mb(self) -> int:
        """Memory of the largest node in MB; 0 if the partition has no nodes."""
        return max((kind.memory_mb for kind in self.kinds), default=0)

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
    qos: tuple[str, ...] = ()
    """Qualities of service that the user may request; empty if SLURM keeps none or does not list them."""

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


def parse_features(text: str) -> dict[str, frozenset[str]]:
    """Parse the output of `sinfo --noheader --format=FEATURES_FORMAT`: the features of each partition's nodes."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, _, features = line.partition("|")
        words = {word.strip() for word in features.split(",")} - {"", "(null)"}
        found.setdefault(name.strip().removesuffix("*"), set()).update(words)
    return {name: frozenset(words) for name, words in found.items()}


def parse_settings(text: str) -> dict[str, str]:
    """Parse the output of `scontrol show config`."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def parse_accounts(text: str) -> list[str]:
    """Parse the accounts in the output of `sacctmgr -nP show assoc user=... format=account,qos`; drop repeated ones."""
    accounts = (line.split("|")[0].strip() for line in text.splitlines())
    return list(dict.fromkeys(account for account in accounts if account))


def parse_qos(text: str) -> list[str]:
    """Parse the qualities of service in the output of `sacctmgr -nP show assoc user=... format=account,qos`."""
    found = (qos.strip() for line in text.splitlines() for qos in line.partition("|")[2].split(","))
    return list(dict.fromkeys(qos for qos in found if qos))


def cluster_from(partitions: str, settings: str, accounts: str = "", features: str | None = None) -> Cluster:
    """Build a cluster from the output of sinfo, `scontrol show config` and sacctmgr.

    `features` is the output of sinfo with `FEATURES_FORMAT`. None leaves the features of the nodes unknown.
    """
    values, named = parse_settings(settings), None if features is None else parse_features(features)
    return Cluster(
        name=values.get("ClusterName", ""),
        partitions=tuple(
            each if named is None else replace(each, features=named.get(each.name, frozenset()))
            for each in parse_partitions(partitions)
        ),
        accounts=tuple(parse_accounts(accounts)),
        accounting=_keeps_accounts(values),
        qos=tuple(parse_qos(accounts)),
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
            accounts = call("sacctmgr", "-nP", "show", "assoc", f"user={getpass.getuser()}", "format=account,qos")
        except BloomeryError:
            # The accounting database may be down or closed to users. Then `cluster init` cannot propose an account.
            accounts = ""
    return cluster_from(
        call("sinfo", "--noheader", "--exact", f"--format={SINFO_FORMAT}"),
        settings,
        accounts,
        call("sinfo", "--noheader", f"--format={FEATURES_FORMAT}"),
    )


def loaded_modules(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the environment modules that are loaded in `environment`, in order."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


def scratch_folder(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the variable, written `${NAME}`, that holds the user's folder on a fast disk; None if no usual one is
    set."""
    names = ("SCRATCH", "WORK")
    return next((f"${{{name}}}" for name in names if environment.get(name, "").startswith("/")), None)
