"""Compute the coordinates of each rank and the samples that its replica reads. Training and `trace` share these
functions.

Ranks are ordered as in DeepSpeed's topology: pipeline (outermost), data, tensor (innermost). Tensor-parallel ranks
communicate most, so they are neighbours and share a node. The samples of a batch depend on the consumed samples alone,
never on the layout. The layout only decides which replica reads which samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError

if TYPE_CHECKING:
    from bloomery.config.training import ParallelConfig


@dataclass(frozen=True)
class RankCoordinates:
    """Coordinates of a rank in the layout."""

    pipeline: int
    data: int
    """Number of the replica."""
    tensor: int


def coordinates_of(parallel: ParallelConfig, rank: int) -> RankCoordinates:
    """Return the coordinates of a global rank.

    Raises:
        InputError: the rank is not in the layout.
    """
    if not 0 <= rank < parallel.world_size:
        raise InputError(
            f"rank {rank} does not exist",
            expected=f"a rank from 0 to {parallel.world_size - 1}: tensor x pipeline x data = {parallel.tensor} x "
            f"{parallel.pipeline} x {parallel.data} = {parallel.world_size} processes",
        )
    replica, tensor = divmod(rank, parallel.tensor)
    pipeline, data = divmod(replica, parallel.data)
    return RankCoordinates(pipeline, data, tensor)


def rank_of(parallel: ParallelConfig, place: RankCoordinates) -> int:
    """Return the global rank at these coordinates."""
    return (place.pipeline * parallel.data + place.data) * parallel.tensor + place.tensor


def micro_batch_starts(first: int, samples: int, micro_batch_size: int, replica: int, replicas: int) -> range:
    """Return the first sample of each micro-batch that a replica reads of the global batch [first, first + samples).

    Micro-batch m of replica r is [start, start + micro_batch_size) with start = first + (m * replicas + r) *
    micro_batch_size (Megatron's order).
    """
    return range(first + replica * micro_batch_size, first + samples, micro_batch_size * replicas)


def replica_of(sample: int, first: int, micro_batch_size: int, replicas: int) -> int:
    """Return the replica that reads `sample` of the global batch that begins at `first`."""
    return (sample - first) // micro_batch_size % replicas
