"""The SLURM job of a training segment: its nodes, and the resources that Snakemake turns into flags of sbatch.

Each node runs one torchrun. Snakemake's SLURM executor (version 2.8) interprets resources in surprising ways, so
`resources` sets:

- `mpi`, present but empty: the executor then does not wrap the job's own snakemake in an srun of one task, so our srun
  can use the whole allocation. A value would make the executor request more than one task.
- `tasks` beside `nodes`: without `tasks`, a job without GPUs requests one task, and sbatch reduces the nodes to one.
- `tasks_per_gpu` 0: otherwise `tasks` becomes the number of tasks per GPU if the job has GPUs.
- `gres`: its GPUs count per node. The GPUs of the resource `gpu` would count for the whole job.
- `--ntasks-per-node=1`: otherwise sbatch may put two tasks on one node.
- `--requeue`: a job starts again after its node failed. `--open-mode=append` keeps the log of the first attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import ConfigError
from bloomery.spec.parameters import parameter_count, planned_rows

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.config.site import Site

_RANK_MB = 2000
"""Main memory of a process without its model, in MB: interpreter, torch, DeepSpeed, communication buffers."""
_HOST_BYTES_PER_PARAMETER = 36
"""Main memory per parameter, in bytes, of a training on CPUs. Weights, gradients, master weights and moments take 18
bytes. Flat copies of them take another 18 bytes while a checkpoint is saved."""


@dataclass(frozen=True)
class TrainingJob:
    """Nodes and resources of one segment's SLURM job."""

    nodes: int
    ranks_per_node: int
    cpus_per_node: int
    memory_mb_per_node: int
    minutes: int
    gres: str | None
    place: dict[str, str]
    exclusive: bool

    def resources(self, dependency: str | None = None, exclude: str | None = None) -> dict[str, int | str]:
        """Return the resources of the rule `train_segment`.

        Args:
            dependency: value of sbatch's option --dependency, such as `afterany:17`.
            exclude: option of sbatch for excluded nodes (`bloomery.orchestration.exclude_option`).
        """
        extra = ["--ntasks-per-node=1", "--open-mode=append", "--requeue"]
        extra += ["--exclusive"] if self.exclusive else []
        extra += [f"--dependency={dependency}"] if dependency else []
        extra += [exclude] if exclude else []
        return {
            "mpi": "",
            "nodes": self.nodes,
            "tasks": self.nodes,
            "tasks_per_gpu": 0,
            "cpus_per_task": self.cpus_per_node,
            "mem_mb": self.memory_mb_per_node,
            "runtime": self.minutes,
            "slurm_extra": " ".join(extra),
            **({"gres": self.gres} if self.gres else {}),
            **self.place,
        }


def launch_options(nodes: int, ranks_per_node: int, cpus_per_node: int) -> list[str]:
    """Return the options that make `bloomery train segment` start one torchrun per node through srun."""
    counts = {"nodes": nodes, "ranks-per-node": ranks_per_node, "cpus-per-node": cpus_per_node}
    return [word for name, count in counts.items() for word in (f"--{name}", str(count))]


def sbatch_options(resources: Mapping[str, Any]) -> list[str]:
    """Return the options of sbatch that Snakemake's executor makes of a training job's resources.

    The launcher of a segment submits the job of the next segment with these options. `resources` are the resources of
    the rule `train_segment`, which may differ from `TrainingJob.resources` because of Snakemake's `--set-resources`.
    """
    flags = {
        "slurm_account": "--account",
        "slurm_partition": "--partition",
        "qos": "--qos",
        "constraint": "--constraint",
        "runtime": "--time",
        "mem_mb": "--mem",
        "nodes": "--nodes",
        "tasks": "--ntasks",
        "cpus_per_task": "--cpus-per-task",
        "gres": "--gres",
    }
    options = [f"{flag}={resources[name]}" for name, flag in flags.items() if resources.get(name) is not None]
    extra = str(resources.get("slurm_extra", "")).split()
    # The launcher adds its own dependency and the nodes that are excluded at that time.
    return [*options, *(word for word in extra if not word.startswith(("--dependency=", "--exclude=")))]


def training_job(config: RunConfig, site: Site) -> TrainingJob:
    """Return the job of one segment of `config` at `site`.

    Raises:
        ConfigError: the processes do not fill whole nodes, or the site's jobs are too short to train.
    """
    training, place = config.training, site.training
    parallel, world = training.parallel, training.parallel.world_size
    ranks = min(world, place.ranks_per_node or place.gpus_per_node or world)
    if world % ranks:
        raise ConfigError(
            f"tensor x pipeline x data = {parallel.tensor} x {parallel.pipeline} x {parallel.data} = {world} processes "
            f"do not fill nodes of {ranks} processes each",
            where="training.parallel",
            expected=f"a multiple of {ranks} processes, or another training.ranks_per_node in the site's file",
        )
    if training.segment.margin_minutes >= place.max_minutes:
        raise ConfigError(
            f"a job of {place.max_minutes} minutes leaves no time to train before the margin of "
            f"{training.segment.margin_minutes:g} minutes that is reserved for the end of the job",
            where="training.segment.margin_minutes",
            expected="a larger training.max_minutes in the site's file, or a smaller training.segment.margin_minutes",
        )
    rows = planned_rows(config)
    own_bytes = parameter_count(config.model, rows) / (parallel.tensor * parallel.pipeline) * _HOST_BYTES_PER_PARAMETER
    estimate = ranks * (_RANK_MB + int(own_bytes / 1e6))
    gpus = min(ranks, place.gpus_per_node)
    return TrainingJob(
        nodes=world // ranks,
        ranks_per_node=ranks,
        cpus_per_node=place.cpus_per_node or ranks * training.threads_per_rank,
        memory_mb_per_node=place.memory_mb_per_node or min(estimate, place.max_memory_mb or estimate),
        minutes=place.max_minutes,
        gres=(place.gres or f"gpu:{gpus}") if place.gpus_per_node else None,
        place=site.job_resources(place),
        exclusive=place.exclusive,
    )
