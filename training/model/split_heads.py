"""Split the fused query-key-value activation into heads, and scale queries and keys or rotate them by position.

The forward and the backward pass each read the activation once. It is the largest activation of attention. autograd
would make four passes over it to add up three zero-padded gradients. Also, a view of the values would keep all three
parts in memory.
"""

from __future__ import annotations

from typing import Any

import torch

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Turn = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, each [length, 1, head_dim] (see `training.model.rotary`)."""


class _SplitHeads(torch.autograd.Function):
    """Autograd function of `split_heads`."""

    @staticmethod
    def forward(ctx: Any, fused: torch.Tensor, scale: float, turn: Turn | None) -> Parts:
        ctx.scale, ctx.turn = scale, turn
        query, key, value = fused.unbind(dim=-2)
        if turn is None:
            return query * scale, key * scale, value.contiguous()
        (cosine, sine), half = turn, query.size(-1) // 2
        query = query * cosine + query.roll(half, dims=-1) * sine
        key = key * cosine + key.roll(half, dims=-1) * sine
        return query, key, value.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        query, key, value = grads
        if ctx.turn is None:
            query, key = query * ctx.scale, key * ctx.scale
        else:
            (cosine, sine), half = ctx.turn, query.size(-1) // 2
            query = query * cosine + (query * sine).roll(half, dims=-1)
            key = key * cosine + (key * sine).roll(half, dims=-1)
        return torch.stack((query, key, value), dim=-2), None, None


def split_heads(fused: torch.Tensor, scale: float, turn: Turn | None) -> Parts:
    """Split [batch, length, heads, 3, head_dim] into query, key and value, each [batch, length, heads, head_dim].

    If `turn` is None, queries and keys are multiplied by `scale`. Otherwise they are rotated by `turn`, which already
    contains the scale.
    """
    if scale == 1.0 and turn is None:
        query, key, value = fused.unbind(dim=-2)
        return query, key, value
    return _SplitHeads.apply(fused, scale, turn)  # type: ignore[no-untyped-call,no-any-return]
