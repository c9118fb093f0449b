"""Where each process stands, and which samples its replica reads: the one arithmetic of the training and of `trace`.

Ranks are ordered pipeline (outermost), data, tensor (innermost), as DeepSpeed's topology orders them: the ranks that
talk most, the tensor-parallel ones, are neighbours and share a node. A batch's samples depend on the consumed count
alone, never on the layout; only who reads which does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError

if TYPE_CHECKING:
    from bloomery.config.training import ParallelConfig


@dataclass(frozen=True)
class RankCoordinates:
    """Coordinates of a process."""

    pipeline: int
    data: int
    """Its replica."""
    tensor: int


def coordinates_of(parallel: ParallelConfig, rank: int) -> RankCoordinates:
    """Coordinates of a global rank. Raises InputError beyond the world."""
    if not 0 <= rank < parallel.world_size:
        raise InputError(
            f"rank {rank} does not exist",
            expected=f"0 to {parallel.world_size - 1}: tensor x pipeline x data = {parallel.tensor} x "
            f"{parallel.pipeline} x {parallel.data} = {parallel.world_size} processes",
        )
    replica, tensor = divmod(rank, parallel.tensor)
    pipeline, data = divmod(replica, parallel.data)
    return RankCoordinates(pipeline, data, tensor)


def rank_of(parallel: ParallelConfig, place: RankCoordinates) -> int:
    """Global rank at a coordinate."""
    return (place.pipeline * parallel.data + place.data) * parallel.tensor + place.tensor


def micro_batch_starts(first: int, samples: int, micro_batch_size: int, replica: int, replicas: int) -> range:
    """First sample of each micro-batch of a replica, of the global batch [first, first + samples).

    Micro-batch m of replica r is [start, start + micro_batch_size) with
    start = first + (m * replicas + r) * micro_batch_size (Megatron's order).
    """
    return range(first + replica * micro_batch_size, first + samples, micro_batch_size * replicas)


def replica_of(sample: int, first: int, micro_batch_size: int, replicas: int) -> int:
    """The replica that reads `sample` of a global batch that begins at `first`."""
    return (sample - first) // micro_batch_size % replicas
