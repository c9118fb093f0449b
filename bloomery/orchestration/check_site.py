"""Check the keys of a site's file against the detected cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bloomery.orchestration.detect_cluster import Cluster, Partition

_PLACES = ("jobs", "training", "internet")
_FEATURE = re.compile(r"[A-Za-z_][\w.:+=-]*")
"""A feature in a constraint such as `a100,nvlink` or `[fast*2,slow*4]`."""


def dotted(site: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested site to dotted keys such as `training.partition`."""
    flat: dict[str, Any] = {}
    for key, value in site.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def site_problems(cluster: Cluster, site: Mapping[str, Any], *, also_closed: bool = True) -> list[str]:
    """Return one line for each value that the cluster does not offer: partitions, accounts, QoS, constraints, time
    limits, and the GPUs, CPUs and memory of a node.

    A value causes no line if the cluster does not show what it offers.

    Args:
        cluster: the detected cluster.
        site: dotted keys, such as `training.partition`, and their values.
        also_closed: whether a partition that is down is a problem. Such a partition accepts jobs, and they wait.
    """
    return [
        *_partitions(cluster, site, also_closed=also_closed),
        *_accounts(cluster, site),
        *_places(cluster, site),
        *_training(cluster, site),
    ]


def closed_partitions(cluster: Cluster, site: Mapping[str, Any]) -> list[str]:
    """Return one line for each partition that is down."""
    return [_closed(key, name) for key, name, found in _named(cluster, site) if found is not None and not found.is_up]


def _closed(key: str, name: str) -> str:
    return f"{key}: SLURM partition {name!r} is down, so choose another one or wait until it is up"


def _named(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[tuple[str, str, Partition | None]]:
    """Yield the key and the name of each partition that the site names, and the partition if the cluster has it."""
    known = {each.name: each for each in cluster.partitions}
    for key in (f"{place}.partition" for place in _PLACES):
        for name in filter(None, (site.get(key) or "").split(",")):
            yield key, name, known.get(name)


def _partitions(cluster: Cluster, site: Mapping[str, Any], *, also_closed: bool) -> Iterator[str]:
    names = ", ".join(each.name for each in cluster.partitions)
    for key, name, found in _named(cluster, site):
        if names and found is None:
            yield f"{key}: sinfo shows no partition {name!r}, so choose one of {names}"
        elif also_closed and found is not None and not found.is_up:
            yield _closed(key, name)


def _accounts(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[str]:
    # SLURM stores account names in lower case.
    known = {name.lower() for name in cluster.accounts}
    for key in ("account", *(f"{place}.account" for place in _PLACES)):
        name = site.get(key)
        if name and known and name.lower() not in known:
            yield f"{key}: you may not charge account {name!r}, so choose one of {', '.join(cluster.accounts)}"


def _places(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of QoS, constraint, and limits of data jobs."""
    known = {name.lower() for name in cluster.qos}
    for place in _PLACES:
        qos = site.get(f"{place}.qos")
        if qos and known and qos.lower() not in known:
            yield f"{place}.qos: you may not request QoS {qos!r}, so choose one of {', '.join(cluster.qos)}"
        partition = used_partition(cluster, site.get(f"{place}.partition"))
        if partition is None:
            continue
        yield from unknown_features(partition, site.get(f"{place}.constraint"), f"{place}.constraint")
        yield from _too_much(
            partition, f"{place}.max_memory_mb", site.get(f"{place}.max_memory_mb"), partition.most_memory_mb, "MB"
        )
        limit, minutes = partition.max_minutes, site.get(f"{place}.max_minutes") or 0
        if limit is not None and minutes > limit and place != "training":
            yield _too_long(partition, f"{place}.max_minutes", minutes, limit)


def used_partition(cluster: Cluster, names: str | None) -> Partition | None:
    """Return the first partition of a list such as `a,b`, or the cluster's default partition without a list.

    Return None if the cluster has no such partition.
    """
    if names:
        return cluster.partition(names)
    return next((each for each in cluster.partitions if each.is_default), None)


def unknown_features(partition: Partition, constraint: str | None, key: str) -> Iterator[str]:
    """Yield a line for each feature in a constraint that no node of the partition has."""
    if not constraint or partition.features is None:
        return
    offered = ", ".join(sorted(partition.features)) or "none"
    for feature in _FEATURE.findall(constraint):
        if feature not in partition.features:
            yield (
                f"{key}: no node of partition {partition.name!r} has the feature {feature!r}; the features of its "
                f"nodes: {offered}"
            )


def _too_much(partition: Partition, key: str, value: int | None, most: int, unit: str) -> Iterator[str]:
    if value and most and value > most:
        where = f"a node of partition {partition.name!r}"
        yield f"{key}: {value} {unit}, but {where} has {most} {unit}, so set at most {most}"


def _too_long(partition: Partition, key: str, minutes: int, limit: int) -> str:
    return (
        f"{key}: {minutes}, but a job in partition {partition.name!r} may run for at most {limit} minutes, so set at "
        f"most {limit}"
    )


def _training(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[str]:
    partition = cluster.partition(site.get("training.partition") or "")
    if partition is None:
        return
    gpus, minutes = site.get("training.gpus_per_node") or 0, site.get("training.max_minutes") or 0
    if gpus > partition.gpus_per_node:
        yield (
            f"training.gpus_per_node: {gpus}, but a node of partition {partition.name!r} has {partition.gpus_per_node} "
            f"GPUs, so set at most {partition.gpus_per_node}"
        )
    cpus, memory = partition.most_cpus, partition.most_memory_mb
    yield from _too_much(partition, "training.cpus_per_node", site.get("training.cpus_per_node"), cpus, "CPUs")
    yield from _too_much(
        partition, "training.memory_mb_per_node", site.get("training.memory_mb_per_node"), memory, "MB"
    )
    if partition.max_minutes is not None and minutes > partition.max_minutes:
        yield _too_long(partition, "training.max_minutes", minutes, partition.max_minutes)
