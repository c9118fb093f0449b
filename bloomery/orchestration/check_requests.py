"""Check, before the first job, whether the cluster would refuse the jobs of a run.

`sbatch --test-only` cannot decide this alone. In SLURM 22.05 it gives one answer, "Requested node configuration is not
available", for nodes that do not exist and for nodes that are drained or reserved for a day. It also accepts a time
limit beyond that of the partition, although such a job waits forever. So this module compares the requested sizes with
the partition. An answer of `sbatch --test-only` is an error only if it does not depend on the state of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.slurm import call
from bloomery.orchestration.check_site import used_partition
from bloomery.orchestration.detect_cluster import Cluster, Partition, gpus_of
from bloomery.orchestration.training_job import TrainingJob

_REFUSALS = ("invalid account", "invalid qos", "invalid feature", "invalid partition", "invalid generic resource")
"""Answers of sbatch that do not depend on the state of the nodes, in lower case."""


@dataclass(frozen=True)
class JobRequest:
    """Largest request among jobs of one kind."""

    jobs: str
    """Description of the jobs, such as `training jobs`."""
    keys: Mapping[str, str]
    """Key to change for each of `nodes`, `cpus`, `memory`, `gpus` and `minutes`."""
    place: Mapping[str, str]
    """SLURM settings: `slurm_account`, `slurm_partition`, `qos`, `constraint`; absent ones are SLURM's defaults."""
    nodes: int
    cpus: int
    """CPUs on each node."""
    memory_mb: int
    """Memory on each node, in MB."""
    gres: str | None
    """Generic resources of each node, such as `gpu:8`."""
    minutes: int

    @property
    def gpus(self) -> int:
        """Number of GPUs on each node."""
        return gpus_of(self.gres or "")


def training_request(job: TrainingJob) -> JobRequest:
    """Return the request of a training's segments."""
    keys = {
        "nodes": "training.parallel",
        "cpus": "training.cpus_per_node",
        "memory": "training.memory_mb_per_node",
        "gpus": "training.gpus_per_node",
        "minutes": "training.max_minutes",
    }
    return JobRequest(
        jobs="training jobs",
        keys=keys,
        place=job.place,
        nodes=job.nodes,
        cpus=job.cpus_per_node,
        memory_mb=job.memory_mb_per_node,
        gres=job.gres,
        minutes=job.minutes,
    )


def request_problems(cluster: Cluster, request: JobRequest) -> list[str]:
    """Return one line for each part of a request that none of its partitions can fulfil.

    If several partitions are named, one of them must be able to run the jobs. Otherwise the problems of the first one
    are returned.
    """
    names = request.place.get("slurm_partition")
    listed = names.split(",") if names else [None]
    partitions = [found for name in listed if (found := used_partition(cluster, name)) is not None and found.kinds]
    problems = [list(_misfits(partition, request)) for partition in partitions]
    return [] if not problems or not all(problems) else problems[0]


def _misfits(partition: Partition, request: JobRequest) -> Iterator[str]:
    where, jobs = f"partition {partition.name!r}", request.jobs
    sizes = (
        ("gpus", request.gpus, max(kind.gpus for kind in partition.kinds), "GPUs"),
        ("cpus", request.cpus, partition.most_cpus, "CPUs"),
        ("memory", request.memory_mb, partition.most_memory_mb, "MB of memory"),
    )
    too_large = False
    for key, wanted, most, unit in sizes:
        if wanted > most:
            too_large = True
            yield f"{request.keys[key]}: {jobs} request {wanted} {unit} per node, but {where} has at most {most}"
    fitting = sum(
        kind.nodes
        for kind in partition.kinds
        if kind.gpus >= request.gpus and kind.cpus >= request.cpus and kind.memory_mb >= request.memory_mb
    )
    if not too_large and request.nodes > fitting:
        yield (
            f"{request.keys['nodes']}: {jobs} request {request.nodes} nodes with {request.gpus} GPUs, "
            f"{request.cpus} CPUs and {request.memory_mb} MB each, but {where} has {fitting} such nodes"
        )
    limit = partition.max_minutes
    if limit is not None and request.minutes > limit:
        yield (
            f"{request.keys['minutes']}: {jobs} request {request.minutes} minutes, but a job in {where} may run for at "
            f"most {limit} minutes"
        )


def sbatch_options(request: JobRequest) -> list[str]:
    """Return the options of sbatch for a request."""
    named = {
        "account": request.place.get("slurm_account"),
        "partition": request.place.get("slurm_partition"),
        "qos": request.place.get("qos"),
        "constraint": request.place.get("constraint"),
        "gres": request.gres,
    }
    return [
        *(f"--{name}={value}" for name, value in named.items() if value is not None),
        f"--nodes={request.nodes}",
        f"--ntasks={request.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={request.cpus}",
        f"--mem={request.memory_mb}",
        f"--time={request.minutes}",
    ]


@dataclass(frozen=True)
class SbatchAnswer:
    """Answer of `sbatch --test-only` for a request."""

    refusal: str = ""
    """Reason why SLURM refuses such jobs, whatever the state of the nodes. Empty if it does not."""
    delay: str = ""
    """Reason why SLURM cannot run such jobs now, but perhaps later. Empty if it can run them."""


def ask_sbatch(request: JobRequest) -> SbatchAnswer:
    """Ask SLURM about a request without submitting a job. If SLURM does not answer, the returned reasons are empty."""
    try:
        call("sbatch", "--test-only", *sbatch_options(request), "--wrap=true")
    except TryAgainError as error:
        lines = [line.strip() for line in error.what.splitlines() if "allocation failure" in line.lower()]
        reason = lines[-1].partition(":")[2].strip() if lines else ""
        if not reason:
            return SbatchAnswer()
        certain = any(text in reason.lower() for text in _REFUSALS)
        options = " ".join(sbatch_options(request))
        said = f"sbatch answers {reason!r} to the options of the {request.jobs}: {options}"
        return SbatchAnswer(refusal=said) if certain else SbatchAnswer(delay=said)
    except BloomeryError:
        return SbatchAnswer()
    return SbatchAnswer()
