"""The mesh of ranks (world = tensor x pipeline x data): this rank's coordinates and the tensor-parallel group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

from bloomery.base.errors import ConfigError
from bloomery.config.training import ParallelConfig
from bloomery.spec.layout import RankCoordinates, coordinates_of, rank_of
from training.parallel.find_gpus import use_gpus
from training.parallel.place import own_place

COLLECTIVE_TIMEOUT = timedelta(minutes=30)
"""A collective fails after this time, because a rank that takes longer is assumed to be dead."""


@dataclass(frozen=True)
class Mesh:
    """Coordinates of this rank (from `bloomery.spec.layout`), its device and its tensor-parallel group."""

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
        """Whether each rank holds only its part of the sequence between tensor-parallel regions."""
        return self.parallel.sequence_parallel and self.parallel.tensor > 1

    @property
    def is_first_stage(self) -> bool:
        """Whether this rank's stage is the first, which holds the embedding."""
        return self.pipeline_rank == 0

    @property
    def is_last_stage(self) -> bool:
        """Whether this rank's stage is the last, which holds the head and computes the loss."""
        return self.pipeline_rank == self.parallel.pipeline - 1

    def rank_of(self, *, pipeline: int, data: int, tensor: int) -> int:
        """Return the global rank at the given coordinates."""
        return rank_of(self.parallel, RankCoordinates(pipeline, data, tensor))


def build_mesh(parallel: ParallelConfig) -> Mesh:
    """Join the process group, using torchrun's environment variables, and build the mesh. Collective.

    Raises:
        ConfigError: the number of processes is not tensor x pipeline x data.
        ResourceError: this process was given GPUs that torch does not find.
    """
    import deepspeed
    import deepspeed.ops

    # DeepSpeed would compile this CPU kernel at start-up, which takes a minute. Only inference uses the kernel.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    own = own_place()
    world = own.world
    if world != parallel.world_size:
        raise ConfigError(
            f"{world} processes were started, but tensor x pipeline x data = {parallel.tensor} x {parallel.pipeline} x "
            f"{parallel.data} = {parallel.world_size}",
            where="training.parallel",
            expected=f"{parallel.world_size} processes, or sizes whose product is {world}",
        )
    local, use_gpu = own.local_rank, use_gpus(own)
    if use_gpu:
        # Set the device before any collective. Otherwise NCCL would use the first GPU for every rank of the node.
        torch.cuda.set_device(local)
    deepspeed.init_distributed(
        "nccl" if use_gpu else "gloo", timeout=COLLECTIVE_TIMEOUT, verbose=False, auto_mpi_discovery=False
    )
    rank = dist.get_rank()
    topology = PipeModelDataParallelTopology(num_pp=parallel.pipeline, num_mp=parallel.tensor, num_dp=parallel.data)
    tensor_group: dist.ProcessGroup | None = None
    # Every rank must create all groups in the same order. For a tensor-parallel size of 1, DeepSpeed's topology returns
    # no lists of ranks, so each rank gets a group of its own.
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
