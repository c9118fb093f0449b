"""The option of sbatch with which a segment does not run on excluded nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.contracts.excluded_nodes import ExcludedNode, read_excluded
from bloomery.contracts.paths import RunPaths

if TYPE_CHECKING:
    from bloomery.orchestration.training_job import TrainingJob


def exclude_option(paths: RunPaths, now: datetime, job: TrainingJob | None = None) -> str | None:
    """Return sbatch's option for the excluded nodes of a run, such as `--exclude=node3,node7`.

    Return None if no node is excluded. A damaged list is reported and ignored, because a training on a bad node is
    better than none.

    Args:
        paths: paths of the run.
        now: current time.
        job: job to submit. If the cluster would not have enough nodes left for it, the nodes that preflights excluded
            are used again, beginning with the exclusion that ends first. None: this is not checked.
    """
    try:
        excluded = read_excluded(paths, now)
    except BloomeryError as error:
        say(f"no node is excluded from the next segment, because the list cannot be read: {error}")
        return None
    if job is not None and excluded:
        excluded = _with_enough_nodes(excluded, job)
    return f"--exclude={','.join(node.host for node in excluded)}" if excluded else None


def _with_enough_nodes(excluded: Sequence[ExcludedNode], job: TrainingJob) -> list[ExcludedNode]:
    """Return the exclusions that leave enough nodes for `job`, without nodes that SLURM does not know.

    sbatch refuses a job that excludes an unknown node.
    """
    try:
        nodes = slurm.cluster_nodes()
    except BloomeryError as error:
        say(f"cannot ask the scheduler how many nodes are left besides the excluded nodes ({error})")
        return list(excluded)
    known = {node.name for node in nodes}
    wanted = job.place.get("slurm_partition")
    names = None if wanted is None else set(wanted.split(","))
    usable = {
        node.name
        for node in nodes
        if node.is_usable and (node.in_default_partition if names is None else node.partition in names)
    }
    kept = [node for node in excluded if node.host in known]
    for node in sorted(kept, key=lambda each: each.until):
        if len(usable - {each.host for each in kept}) >= job.nodes:
            break
        if node.by == "preflight" and node.host in usable:
            say(f"{node.host} is used although a preflight excluded it, because the job needs {job.nodes} nodes")
            kept.remove(node)
    return kept
