"""ALiBi: attention scores fall linearly with distance, with a slope per head (Press et al. 2021, arXiv:2108.12409)."""

from __future__ import annotations

import math
from functools import lru_cache

import torch


def slopes(heads: int) -> list[float]:
    """Slope of each head: a geometric sequence for a power of two, else interleaved with that of twice the size."""
    power = 2 ** math.floor(math.log2(heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(power) - 3)))
    values = [base ** (1 + head) for head in range(power)]
    if power < heads:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * power) - 3)))
        values += [extra ** (1 + 2 * head) for head in range(heads - power)]
    return values


@lru_cache(maxsize=2)
def attention_bias(
    heads: int, first_head: int, local_heads: int, length: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Causal mask and ALiBi in one additive bias [1, local_heads, length, length] for heads first_head onwards.

    The bias is -slope * distance: near the diagonal, where the weight is, its values are small and bf16 holds them
    well; the softmax cannot tell it from the form slope * key position that transformers uses.

    All blocks of a rank share one: BLOOM-176B's has 235 MB. Nobody may write into it.
    """
    position = torch.arange(length, device=device)
    distance = (position.unsqueeze(1) - position.unsqueeze(0)).float()
    slope = torch.tensor(slopes(heads)[first_head : first_head + local_heads], device=device)
    bias = -slope.view(1, -1, 1, 1) * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)
