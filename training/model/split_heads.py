"""From the fused query-key-value matrix to heads: split, turned by their position, scaled; one pass each way.

Written out because autograd would fill the gradient's parts into zeros and add them up, four passes over the greatest
activation of attention, and because a view of the values would keep all three parts in memory.
"""

from __future__ import annotations

from typing import Any

import torch

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Turn = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines [length, 1, head_dim], see `training.model.rotary`."""


class _SplitHeads(torch.autograd.Function):
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
    """[batch, length, heads, 3, head_dim] -> query, key, value [batch, length, heads, head_dim].

    Queries and keys are multiplied by `scale`, or turned by `turn`, which has the scale in it.
    """
    if scale == 1.0 and turn is None:
        query, key, value = fused.unbind(dim=-2)
        return query, key, value
    return _SplitHeads.apply(fused, scale, turn)  # type: ignore[no-untyped-call,no-any-return]
