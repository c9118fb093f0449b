"""The training's SLURM job: nodes and the resources that Snakemake's SLURM executor turns into flags of sbatch.

One torchrun a node. What the executor (2.8) makes of resources has traps, and each line of `resources` answers one:

- `mpi` present but empty: the job's own snakemake is not wrapped in an srun of one task, so that our srun can take the
  whole allocation; a value would ask for more than one task.
- `tasks` beside `nodes`: without it a job without GPUs asks for one task, and sbatch then lowers the nodes to one.
- `tasks_per_gpu` 0: with a GPU, `tasks` would become tasks of each GPU.
- `gres` counts on each node; `gpu` would count in the whole job.
- `--ntasks-per-node=1`: else sbatch may put two of the tasks on one node.
- `--requeue`: a job whose node died starts again; `--open-mode=append` keeps the log of its first attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError
from bloomery.spec.parameters import parameter_count, planned_rows

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.config.site import Site

_RANK_MB = 2000
"""Main memory of a process before its model: interpreter, torch, DeepSpeed, communication buffers."""
_HOST_BYTES_PER_PARAMETER = 36
"""On CPUs: weights, gradients, master weights and moments (18), their flat copies while a checkpoint is saved (18)."""


@dataclass(frozen=True)
class TrainingJob:
    """The shape of one segment's job."""

    nodes: int
    ranks_per_node: int
    cpus_per_node: int
    memory_mb_per_node: int
    minutes: int
    gres: str | None
    place: dict[str, str]
    exclusive: bool

    def resources(self, dependency: str | None = None) -> dict[str, int | str]:
        """Resources of the rule. `dependency`: a condition of sbatch, such as `afterany:17`."""
        extra = ["--ntasks-per-node=1", "--open-mode=append", "--requeue"]
        extra += ["--exclusive"] if self.exclusive else []
        extra += [f"--dependency={dependency}"] if dependency else []
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

    def launch_options(self) -> list[str]:
        """Options of `bloomery train segment` that make it start one torchrun a node through srun."""
        counts = {"nodes": self.nodes, "ranks-per-node": self.ranks_per_node, "cpus-per-node": self.cpus_per_node}
        return [word for name, count in counts.items() for word in (f"--{name}", str(count))]


def training_job(config: RunConfig, site: Site) -> TrainingJob:
    """The job of one segment of `config` at `site`.

    Raises:
        ConfigError: the processes do not fill whole nodes, or the jobs are too short.
    """
    training, place = config.training, site.training
    parallel, world = training.parallel, training.parallel.world_size
    ranks = min(world, place.ranks_per_node or place.gpus_per_node or world)
    if world % ranks:
        raise ConfigError(
            f"tensor x pipeline x data = {parallel.tensor} x {parallel.pipeline} x {parallel.data} = {world} processes "
            f"do not fill nodes of {ranks}",
            where="training.parallel",
            expected=f"a multiple of {ranks}, or another training.ranks_per_node in the site's file",
        )
    if training.segment.margin_minutes >= place.max_minutes:
        raise ConfigError(
            f"a job of {place.max_minutes} minutes leaves no time to train before the margin of "
            f"{training.segment.margin_minutes:g} minutes",
            where="training.segment.margin_minutes",
            expected="a longer training.max_minutes in the site's file, or a smaller margin",
        )
    rows = planned_rows(config)
    own_bytes = parameter_count(config.model, rows) / (parallel.tensor * parallel.pipeline) * _HOST_BYTES_PER_PARAMETER
    gpus = min(ranks, place.gpus_per_node)
    return TrainingJob(
        nodes=world // ranks,
        ranks_per_node=ranks,
        cpus_per_node=place.cpus_per_node or ranks * training.threads_per_rank,
        memory_mb_per_node=place.memory_mb_per_node or ranks * (_RANK_MB + int(own_bytes / 1e6)),
        minutes=place.max_minutes,
        gres=(place.gres or f"gpu:{gpus}") if place.gpus_per_node else None,
        place=site.job_resources(place),
        exclusive=place.exclusive,
    )
