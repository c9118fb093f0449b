"""The learning rate as a function of consumed samples; stateless, so a resumed run needs no scheduler state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig


def learning_rate(
    optimizer: OptimizerConfig,
    consumed_samples: int,
    train_samples: int,
    *,
    consumed_tokens: int = 0,
    warmup_tokens: int = 0,
) -> float:
    """Learning rate after `consumed_samples` (Megatron's annealing: linear warm-up, then decay, then the minimum).

    With `decay_tokens` the decay goes by `consumed_tokens` from `warmup_tokens` on, those of the warm-up's end.
    """
    peak, least, warmup = optimizer.learning_rate, optimizer.min_learning_rate, optimizer.warmup_samples
    if warmup and consumed_samples <= warmup:
        return peak * consumed_samples / warmup
    if optimizer.schedule == "constant":
        return peak
    position, start, end = consumed_samples, warmup, optimizer.decay_samples or train_samples
    if optimizer.decay_tokens is not None:
        position, start, end = consumed_tokens, warmup_tokens, optimizer.decay_tokens
    if position > end:
        return least
    ratio = (position - start) / max(1, end - start)
    shape = 1.0 - ratio if optimizer.schedule == "linear" else 0.5 * (math.cos(math.pi * ratio) + 1.0)
    return least + shape * (peak - least)
