"""Attention by the flash-attn package (Dao 2023, arXiv:2307.08691), for 16-bit types on a GPU.

Its kernel computes ALiBi from the slopes, so no bias tensor is needed.
"""

from __future__ import annotations

import torch

from training.model.alibi import local_slopes
from training.model.attention import sdpa
from training.model.attention.heads import Attend, Heads


def build(heads: Heads) -> Attend:
    """Build the back end. Raises ImportError if flash-attn is not installed."""
    from flash_attn import flash_attn_func

    whole = sdpa.build(heads)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.dtype is torch.float32:
            # Reference logits are computed in fp32, which flash-attn does not support.
            return whole(query, key, value)
        slopes = local_slopes(heads, query.device) if heads.alibi else None
        # A replay requests deterministic kernels. flash-attn's usual backward pass adds in an arbitrary order.
        options = {"deterministic": True} if torch.are_deterministic_algorithms_enabled() else {}
        mixed: torch.Tensor = flash_attn_func(
            query, key, value, softmax_scale=heads.scale, causal=True, alibi_slopes=slopes, **options
        )
        return mixed

    return attend
