"""The flash-attn package (Dao 2023, arXiv:2307.08691): 16 bits on a GPU; ALiBi inside the kernel from its slopes."""

from __future__ import annotations

import torch

from training.model.alibi import local_slopes
from training.model.attention import sdpa
from training.model.attention.heads import Attend, Heads


def build(heads: Heads) -> Attend:
    """Raises ImportError where the package is not installed."""
    from flash_attn import flash_attn_func

    whole = sdpa.build(heads)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.dtype is torch.float32:
            # Reference logits: the package has 16 bits alone.
            return whole(query, key, value)
        slopes = local_slopes(heads, query.device) if heads.alibi else None
        mixed: torch.Tensor = flash_attn_func(
            query, key, value, softmax_scale=heads.scale, causal=True, alibi_slopes=slopes
        )
        return mixed

    return attend
