"""Attention by torch's scaled_dot_product_attention, fused on CPU and GPU. With ALiBi, it reads a bias tensor."""

from __future__ import annotations

import torch
from torch.nn import functional

from training.model.alibi import attention_bias
from training.model.attention.heads import Attend, Heads


def build(heads: Heads) -> Attend:
    """Build the back end. Without ALiBi, `is_causal` replaces the bias tensor."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        length = query.size(1)
        bias = attention_bias(heads, length, query.dtype, query.device) if heads.alibi else None
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attn_mask=bias,
            is_causal=bias is None,
            scale=heads.scale,
        )
        return mixed.transpose(1, 2)

    return attend
