"""The learning rate as a function of consumed samples; stateless, so a resumed run needs no scheduler state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig


def learning_rate(optimizer: OptimizerConfig, consumed_samples: int, train_samples: int) -> float:
    """Learning rate after `consumed_samples` (Megatron's annealing: linear warm-up, then decay, then the minimum)."""
    peak, least = optimizer.learning_rate, optimizer.min_learning_rate
    warmup = optimizer.warmup_samples
    decay = optimizer.decay_samples or train_samples
    if warmup and consumed_samples <= warmup:
        return peak * consumed_samples / warmup
    if optimizer.schedule == "constant":
        return peak
    if consumed_samples > decay:
        return least
    ratio = (consumed_samples - warmup) / max(1, decay - warmup)
    shape = 1.0 - ratio if optimizer.schedule == "linear" else 0.5 * (math.cos(math.pi * ratio) + 1.0)
    return least + shape * (peak - least)
