"""Attention from plain matrix products and a softmax.

It is the reference for the other back ends. For short 16-bit sequences on a CPU it is also the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from training.model.alibi import attention_bias
from training.model.attention.heads import Attend, Heads
from training.parallel.products import matmul


def build(heads: Heads) -> Attend:
    """Build the back end. It stores the attention weights [batch, heads, length, length] for the backward pass."""
    return partial(attend, heads)


def attend(
    heads: Heads,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    drop: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Compute attention. `drop` applies dropout to the attention weights [batch, heads, length, length]."""
    bias = attention_bias(heads, query.size(1), query.dtype, query.device)
    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    # The gradients need neither the scores nor their sum with the bias, so no further tensors of this size are created.
    scores = matmul(query, key.transpose(-1, -2))
    if heads.scale != 1.0:
        scores.mul_(heads.scale)
    # torch computes the softmax of 16-bit values in fp32 internally.
    weights = scores.add_(bias).softmax(dim=-1)
    if drop is not None:
        weights = drop(weights)
    return matmul(weights, value).transpose(1, 2)
