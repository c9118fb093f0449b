"""Plain products and a softmax: the reference, and for short sequences the fastest on a CPU in 16 bits."""

from __future__ import annotations

import torch

from training.model.alibi import attention_bias
from training.model.attention.heads import Attend, Heads


def build(heads: Heads) -> Attend:
    """Weights [batch, heads, length, length] are kept for the backward pass."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        bias = attention_bias(heads, query.size(1), query.dtype, query.device)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        scores = query @ key.transpose(-1, -2)
        if heads.scale != 1.0:
            scores = scores * heads.scale
        # torch's softmax of 16 bits computes in fp32 inside.
        return ((scores + bias).softmax(dim=-1) @ value).transpose(1, 2)

    return attend
