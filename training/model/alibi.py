"""ALiBi: attention scores fall linearly with distance, with a slope per head (Press et al. 2021, arXiv:2108.12409)."""

from __future__ import annotations

import math

import torch

from training.model.attention.heads import Heads
from training.model.shared import shared


def slopes(heads: int) -> list[float]:
    """Slope of each head: a geometric sequence for a power of two, else interleaved with that of twice the size."""
    power = 2 ** math.floor(math.log2(heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(power) - 3)))
    values = [base ** (1 + head) for head in range(power)]
    if power < heads:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * power) - 3)))
        values += [extra ** (1 + 2 * head) for head in range(heads - power)]
    return values


@shared
def local_slopes(heads: Heads, device: torch.device) -> torch.Tensor:
    """Slopes of this rank's heads, fp32 [local]."""
    return torch.tensor(slopes(heads.total)[heads.first : heads.first + heads.local], device=device)


@shared
def attention_bias(heads: Heads, length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Causal mask, and ALiBi where the heads have it, in one additive bias [1, local or 1, length, length].

    ALiBi is -slope * distance: near the diagonal, where the weight is, its values are small and bf16 holds them well;
    the softmax cannot tell it from the form slope * key position that transformers uses.

    All blocks of a rank share one: BLOOM-176B's has 235 MB.
    """
    position = torch.arange(length, device=device)
    distance = (position.unsqueeze(1) - position.unsqueeze(0)).float()
    slope = local_slopes(heads, device) if heads.alibi else torch.zeros(1, device=device)
    bias = -slope.view(1, -1, 1, 1) * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)
