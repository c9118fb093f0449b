"""Attention from plain matrix products and a softmax.

It is the reference for the other back ends. For short 16-bit sequences on a CPU it is also the fastest.
"""

from __future__ import annotations

import torch

from training.model.alibi import attention_bias
from training.model.attention.heads import Attend, Heads
from training.parallel.products import matmul


def build(heads: Heads) -> Attend:
    """Build the back end. It stores the attention weights [batch, heads, length, length] for the backward pass."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        bias = attention_bias(heads, query.size(1), query.dtype, query.device)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        scores = matmul(query, key.transpose(-1, -2))
        if heads.scale != 1.0:
            scores = scores * heads.scale
        # torch computes the softmax of 16-bit values in fp32 internally.
        return matmul((scores + bias).softmax(dim=-1), value).transpose(1, 2)

    return attend
