"""Assemble one parameter, or a range of it, from the shards of the tensor-parallel ranks.

Replicas are never averaged. If they differ, an error names the parameter and the ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bloomery.checkpoint.drift import DriftError, how_to_repair

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter


def part_of(parameter: Parameter, rank: int, tensor_parallel: int) -> range | None:
    """Return the indices of the split dimension that tensor rank `rank` of `tensor_parallel` holds.

    Return None if the parameter is replicated.

    Raises:
        ValueError: the split dimension is not a multiple of `tensor_parallel`.
    """
    dimension = parameter.placement.dimension
    if dimension is None:
        return None
    size = parameter.shard_shape(tensor_parallel)[dimension]
    return range(rank * size, (rank + 1) * size)


def shards_of(parameter: Parameter, tensor_parallel: int, wanted: range | None) -> range:
    """Return the tensor ranks, out of `tensor_parallel`, whose shards contain some of the indices `wanted`. If `wanted`
    is None, or the parameter is not split, all ranks are returned.
    """
    dimension = parameter.placement.dimension
    if dimension is None or wanted is None:
        return range(tensor_parallel)
    each = parameter.shard_shape(tensor_parallel)[dimension]
    return range(wanted.start // each, -(-wanted.stop // each))


def assemble(
    parameter: Parameter,
    shard: Callable[[int], torch.Tensor],
    tensor_parallel: int,
    dtype: torch.dtype,
    *,
    wanted: range | None = None,
    out: torch.Tensor | None = None,
    what: str,
    where: str,
) -> torch.Tensor:
    """Return the contiguous parameter in `dtype`, or only the indices `wanted` of its split dimension.

    Args:
        parameter: shape and placement of the parameter.
        shard: function that returns the shard of a tensor rank. It is called only for ranks that hold wanted indices.
        tensor_parallel: number of shards.
        dtype: type of the result.
        wanted: indices of the split dimension; None for all.
        out: memory for the result, a contiguous tensor of its shape and type; None for new memory.
        what: name of the parameter, for an error message.
        where: the checkpoint, for an error message.

    Raises:
        DriftError: the replicas on the tensor ranks are not bit-equal.
    """
    import torch

    dimension = parameter.placement.dimension
    if dimension is None:
        shards = [shard(rank) for rank in range(tensor_parallel)]
        _check_replicas(shards, what, where)
        return shards[0].to(dtype, copy=True) if out is None else out.copy_(shards[0])
    each = parameter.shard_shape(tensor_parallel)[dimension]
    wanted = range(parameter.shape[dimension]) if wanted is None else wanted
    shape = (*parameter.shape[:dimension], len(wanted), *parameter.shape[dimension + 1 :])
    found = torch.empty(shape, dtype=dtype) if out is None else out
    for rank in shards_of(parameter, tensor_parallel, wanted):
        low, high = max(wanted.start, rank * each), min(wanted.stop, (rank + 1) * each)
        found.narrow(dimension, low - wanted.start, high - low).copy_(
            shard(rank).narrow(dimension, low - rank * each, high - low)
        )
    return found


def bits_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether type, shape and every bit are equal, so that NaN equals itself and -0.0 differs from 0.0."""
    import torch

    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return torch.equal(first.contiguous().view(kind), second.contiguous().view(kind))


def greatest_difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return the largest absolute difference between two elements."""
    return float((first.float() - second.float()).abs().max())


def _check_replicas(shards: list[torch.Tensor], what: str, where: str) -> None:
    drifted = [rank for rank in range(1, len(shards)) if not bits_equal(shards[0], shards[rank])]
    if drifted:
        greatest = max(greatest_difference(shards[0], shards[rank]) for rank in drifted)
        raise DriftError(
            f"every tensor rank holds a replica of {what}, but the replica on rank(s) {', '.join(map(str, drifted))} "
            f"differs from that on rank 0 by up to {greatest:.3g}",
            where=where,
            expected=f"bit-equal replicas; they differ if the ranks applied different updates; {how_to_repair(where)}",
        )
