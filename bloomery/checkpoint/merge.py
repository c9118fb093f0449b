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


def shards_of(parameter: Parameter, tensor_parallel: int, wanted: range | None) -> list[tuple[int, range | None]]:
    """Return the tensor ranks, out of `tensor_parallel`, whose shards contain some of the indices `wanted`.

    Each rank comes with the range of these indices, counted from the start of its shard. If `wanted` is None, all
    indices are wanted. If the parameter is not split, all ranks are returned, each with None instead of a range.
    """
    dimension = parameter.placement.dimension
    if dimension is None:
        return [(rank, None) for rank in range(tensor_parallel)]
    each = parameter.shard_shape(tensor_parallel)[dimension]
    wanted = range(parameter.shape[dimension]) if wanted is None else wanted
    return [
        (rank, range(max(wanted.start - rank * each, 0), min(wanted.stop - rank * each, each)))
        for rank in range(wanted.start // each, -(-wanted.stop // each))
    ]


def narrowed(parameter: Parameter, shard: torch.Tensor, indices: range | None) -> torch.Tensor:
    """Return a view of a parameter's shard with only these indices of its split dimension. None selects all indices."""
    dimension = parameter.placement.dimension
    return shard if dimension is None or indices is None else shard.narrow(dimension, indices.start, len(indices))


def assemble(
    parameter: Parameter,
    shard: Callable[[int, range | None], torch.Tensor],
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
        shard: function that returns the shard of a tensor rank, or only some indices of it (see `narrowed`). It is
            called only for ranks that hold wanted indices.
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
        shards = [shard(rank, None) for rank in range(tensor_parallel)]
        _check_replicas(shards, what, where)
        return shards[0].to(dtype, copy=True) if out is None else out.copy_(shards[0])
    count = parameter.shape[dimension] if wanted is None else len(wanted)
    shape = (*parameter.shape[:dimension], count, *parameter.shape[dimension + 1 :])
    found = torch.empty(shape, dtype=dtype) if out is None else out
    start = 0
    for rank, indices in shards_of(parameter, tensor_parallel, wanted):
        part = shard(rank, indices)
        found.narrow(dimension, start, part.shape[dimension]).copy_(part)
        start += part.shape[dimension]
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
