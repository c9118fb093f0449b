"""ALiBi slopes and attention bias (Press et al. 2021, arXiv:2108.12409).

ALiBi lowers an attention score in proportion to the distance between query and key, with one slope per head.
"""

from __future__ import annotations

import math

import torch

from training.model.attention.heads import Heads
from training.model.shared import shared


def slopes(heads: int) -> list[float]:
    """Return the slope of each head.

    If the number of heads is a power of two, the slopes are a geometric sequence. Otherwise, the sequence for the next
    smaller power of two is followed by every second slope of the sequence for the next larger power of two.
    """
    power = 2 ** math.floor(math.log2(heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(power) - 3)))
    values = [base ** (1 + head) for head in range(power)]
    if power < heads:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * power) - 3)))
        values += [extra ** (1 + 2 * head) for head in range(heads - power)]
    return values


@shared
def local_slopes(heads: Heads, device: torch.device) -> torch.Tensor:
    """Return the slopes of this rank's heads, fp32 [local]."""
    return torch.tensor(slopes(heads.total)[heads.first : heads.first + heads.local], device=device)


@shared
def attention_bias(heads: Heads, length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the causal mask, plus ALiBi if `heads.alibi` is set, as an additive bias.

    The shape is [1, local, length, length] with ALiBi and [1, 1, length, length] without.

    ALiBi is -slope * distance. Attention weights are large near the diagonal, where these values are small and bf16 is
    accurate. transformers uses slope * key position instead, which gives the same softmax.

    All blocks of a rank share one bias, because it is large: 235 MB for BLOOM-176B.
    """
    position = torch.arange(length, device=device)
    distance = (position.unsqueeze(1) - position.unsqueeze(0)).float()
    slope = local_slopes(heads, device) if heads.alibi else torch.zeros(1, device=device)
    bias = -slope.view(1, -1, 1, 1) * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)
