"""Move the elements of a tensor between the training's order and the order of a transformers family, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.spec.transformers_families.family import Transform

if TYPE_CHECKING:
    import torch


def to_transformers(
    tensor: torch.Tensor, transform: Transform, heads: int, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the tensor in the order of transformers, contiguous.

    `heads` is the number of attention heads. `out` is memory for the result, a contiguous tensor of its shape and type.
    If it is None and the order is the same, the result may be the tensor itself.
    """
    if transform in (Transform.SPLIT_HEADS, Transform.SPLIT_HEADS_TRANSPOSE):
        tensor = _swapped(tensor, heads, 3)
    if transform in (Transform.TRANSPOSE, Transform.SPLIT_HEADS_TRANSPOSE):
        tensor = tensor.t()
    return tensor.contiguous() if out is None else out.copy_(tensor)


def to_training(tensor: torch.Tensor, transform: Transform, heads: int) -> torch.Tensor:
    """Return the tensor in the order of the training, contiguous. This is the inverse of `to_transformers`."""
    if transform in (Transform.TRANSPOSE, Transform.SPLIT_HEADS_TRANSPOSE):
        tensor = tensor.t()
    if transform in (Transform.SPLIT_HEADS, Transform.SPLIT_HEADS_TRANSPOSE):
        tensor = _swapped(tensor, 3, heads)
    return tensor.contiguous()


def _swapped(tensor: torch.Tensor, outer: int, inner: int) -> torch.Tensor:
    """Swap the two outer factors of dimension 0: [outer, inner, size] -> [inner, outer, size]."""
    parts = tensor.reshape(outer, inner, -1, *tensor.shape[1:])
    return parts.transpose(0, 1).reshape(tensor.shape)
