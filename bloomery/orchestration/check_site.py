"""Check the keys of a site's file against the detected cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bloomery.orchestration.detect_cluster import Cluster

_PLACES = ("jobs", "training", "internet")


def dotted(site: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested site to dotted keys such as `training.partition`."""
    flat: dict[str, Any] = {}
    for key, value in site.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def site_problems(cluster: Cluster, site: Mapping[str, Any]) -> list[str]:
    """Return one line for each partition, account, GPU count or time limit that the cluster does not offer.

    `site` maps dotted keys, such as `training.partition`, to their values.
    """
    return [*_partitions(cluster, site), *_accounts(cluster, site), *_training(cluster, site)]


def _partitions(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[str]:
    known = {each.name: each for each in cluster.partitions}
    for key in (f"{place}.partition" for place in _PLACES):
        for name in filter(None, (site.get(key) or "").split(",")):
            if known and name not in known:
                yield f"{key}: sinfo shows no partition {name!r}, so choose one of {', '.join(known)}"
            elif known and not known[name].is_up:
                yield f"{key}: SLURM partition {name!r} is down, so choose another one or wait until it is up"


def _accounts(cluster: Cluster, site: Mapping[str, Any]) -> Iterator[str]:
    # SLURM stores account names in lower case.
    known = {name.lower() for name in cluster.accounts}
    for key in ("account", *(f"{place}.account" for place in _PLACES)):
        name = site.get(key)
        if name and known and name.lower() not in known:
            yield f"{key}: you may not charge account {name!r}, so choose one of {', '.join(cluster.accounts)}"


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
    if partition.max_minutes is not None and minutes > partition.max_minutes:
        yield (
            f"training.max_minutes: {minutes}, but a job in partition {partition.name!r} may run for at most "
            f"{partition.max_minutes} minutes, so set at most {partition.max_minutes}"
        )
