"""The mesh of ranks: world = tensor x pipeline x data, validated once; who is where, and the tensor-parallel group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

from bloomery.base.errors import ConfigError
from bloomery.config.training import ParallelConfig
from bloomery.spec.layout import RankCoordinates, coordinates_of, rank_of

COLLECTIVE_TIMEOUT = timedelta(minutes=30)
"""A collective that takes longer is a dead peer, not a slow one."""


@dataclass(frozen=True)
class Mesh:
    """Coordinates of this rank (by `bloomery.spec.layout`) and the groups it talks in."""

    parallel: ParallelConfig
    topology: Any
    rank: int
    tensor_rank: int
    pipeline_rank: int
    data_rank: int
    tensor_group: dist.ProcessGroup
    device: torch.device

    @property
    def tensor_size(self) -> int:
        """Tensor-parallel size."""
        return self.parallel.tensor

    @property
    def sequence_parallel(self) -> bool:
        """Between tensor-parallel regions each rank holds its part of the sequence."""
        return self.parallel.sequence_parallel and self.parallel.tensor > 1

    @property
    def is_first_stage(self) -> bool:
        """Holds the embedding."""
        return self.pipeline_rank == 0

    @property
    def is_last_stage(self) -> bool:
        """Holds the head and computes the loss."""
        return self.pipeline_rank == self.parallel.pipeline - 1

    def rank_of(self, *, pipeline: int, data: int, tensor: int) -> int:
        """Global rank at a coordinate."""
        return rank_of(self.parallel, RankCoordinates(pipeline, data, tensor))


def build_mesh(parallel: ParallelConfig) -> Mesh:
    """Join the process group (environment of torchrun) and build the mesh.

    Raises:
        ConfigError: the number of processes is not tensor x pipeline x data.
    """
    import deepspeed
    import deepspeed.ops

    # DeepSpeed would compile this inference-only CPU kernel at start-up (a minute); training never calls it.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    use_gpu = torch.cuda.is_available()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world != parallel.world_size:
        raise ConfigError(
            f"{world} processes were started, but tensor x pipeline x data = {parallel.tensor} x {parallel.pipeline} x "
            f"{parallel.data} = {parallel.world_size}",
            where="training.parallel",
        )
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if use_gpu:
        # Before any collective: NCCL works on the current device, which would be the first one for all.
        torch.cuda.set_device(local)
    deepspeed.init_distributed(
        "nccl" if use_gpu else "gloo", timeout=COLLECTIVE_TIMEOUT, verbose=False, auto_mpi_discovery=False
    )
    rank = dist.get_rank()
    topology = PipeModelDataParallelTopology(num_pp=parallel.pipeline, num_mp=parallel.tensor, num_dp=parallel.data)
    tensor_group: dist.ProcessGroup | None = None
    # Every rank takes part in making every group, in the same order. A size of 1 has no axis list of its own.
    for ranks in topology.get_axis_comm_lists("model") or [[r] for r in range(world)]:
        group = dist.new_group(ranks, timeout=COLLECTIVE_TIMEOUT)
        if rank in ranks:
            tensor_group = group
    assert tensor_group is not None
    place = coordinates_of(parallel, rank)
    return Mesh(
        parallel=parallel,
        topology=topology,
        rank=rank,
        tensor_rank=place.tensor,
        pipeline_rank=place.pipeline,
        data_rank=place.data,
        tensor_group=tensor_group,
        device=torch.device("cuda", local) if use_gpu else torch.device("cpu"),
    )
