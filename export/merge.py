"""One whole parameter from its shards: each slice is copied to its place; replicas must be equal, never averaged.

Memory: one whole parameter beside the memory-mapped shards. BLOOM-176B's largest, the embedding, takes 7.2 GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import layer_file
from bloomery.contracts.placement import Placement

if TYPE_CHECKING:
    import torch

    from bloomery.contracts.placement import Parameter
    from export.read import Checkpoint


def merge_parameter(checkpoint: Checkpoint, parameter: Parameter, dtype: torch.dtype) -> torch.Tensor:
    """The whole parameter, contiguous, in `dtype`.

    Raises:
        CheckFailedError: replicas (over the tensor ranks, or a tied layer's copy) differ in a bit.
    """
    import torch

    shards = checkpoint.shards(parameter)
    if parameter.placement is Placement.REPLICATED:
        _check_replicas(checkpoint, parameter, shards)
        return shards[0].to(dtype, copy=True)
    whole = torch.empty(parameter.shape, dtype=dtype)
    for rank, shard in enumerate(shards):
        whole[parameter.shard_slices(rank, checkpoint.ranks)] = shard
    for layer in parameter.tied_layers:
        if checkpoint.has_layer(layer):
            _check_tied(checkpoint, parameter, shards, layer)
    return whole


def bits_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Equal in type, shape and every bit, so that NaN equals itself and -0.0 differs from 0.0."""
    import torch

    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return torch.equal(first.contiguous().view(kind), second.contiguous().view(kind))


def _greatest_difference(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first.float() - second.float()).abs().max())


def _check_replicas(checkpoint: Checkpoint, parameter: Parameter, shards: list[torch.Tensor]) -> None:
    drifted = [rank for rank in range(1, len(shards)) if not bits_equal(shards[0], shards[rank])]
    if drifted:
        greatest = max(_greatest_difference(shards[0], shards[rank]) for rank in drifted)
        raise CheckFailedError(
            f"{parameter.name} is a replica on every tensor rank, but on rank(s) {', '.join(map(str, drifted))} it "
            f"differs from rank 0 by up to {greatest:.3g}",
            where=str(checkpoint.folder),
            expected="bit-equal replicas; drift means that the ranks took different updates",
        )


def _check_tied(checkpoint: Checkpoint, parameter: Parameter, shards: list[torch.Tensor], layer: int) -> None:
    for rank, (owner, copy) in enumerate(zip(shards, checkpoint.shards(parameter, layer), strict=True)):
        if not bits_equal(owner, copy):
            raise CheckFailedError(
                f"{parameter.name} is tied to pipeline layer {layer}, but {layer_file(layer, rank)} differs from "
                f"{layer_file(parameter.layer, rank)} by up to {_greatest_difference(owner, copy):.3g}",
                where=str(checkpoint.folder),
                expected="bit-equal copies of a tied parameter",
            )
