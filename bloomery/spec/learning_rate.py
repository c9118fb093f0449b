"""Compute the learning rate from consumed samples or tokens, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bloomery.spec.batch import iterations_of_samples
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import ResolvedOptimizer, TrainingConfig

COOLDOWN_SHARE = 10
"""Schedule `wsd` decays over the last tenth of the schedule if no cooldown is configured."""


def learning_rate_at(
    model: ModelConfig, training: TrainingConfig, consumed_samples: int, consumed_tokens: int
) -> float:
    """Return the learning rate of the step of `training` that ends at this number of consumed samples and tokens."""
    return learning_rate(
        resolved_optimizer(training),
        consumed_samples,
        training.train_samples,
        consumed_tokens=consumed_tokens,
        decay_start=decay_start(model, training),
    )


def decay_start(model: ModelConfig, training: TrainingConfig) -> int:
    """Return where the warm-up ends, in the unit of the decay: tokens if `decay_tokens` is set, else samples."""
    optimizer = resolved_optimizer(training)
    if optimizer.decay_tokens is not None:
        if optimizer.warmup_tokens is not None:
            return optimizer.warmup_tokens
        return trajectory(model, training).tokens_at(optimizer.warmup_samples) if optimizer.warmup_samples else 0
    if optimizer.warmup_tokens is not None:
        return trajectory(model, training).samples_at(optimizer.warmup_tokens)
    return optimizer.warmup_samples


def decay_end(training: TrainingConfig) -> tuple[str, int, int | None]:
    """Return the unit of the decay (samples or tokens), the position at which the decay ends, and the configured length
    of the cooldown of `wsd` in this unit."""
    optimizer = training.optimizer
    if optimizer.decay_tokens is not None:
        return "tokens", optimizer.decay_tokens, optimizer.cooldown_tokens
    return "samples", optimizer.decay_samples or training.train_samples, optimizer.cooldown_samples


def warmup_iterations(model: ModelConfig, training: TrainingConfig) -> int:
    """Return the number of iterations that the warm-up takes, also if the training is shorter than the warm-up.

    A warm-up that ends within an iteration includes this iteration. Skipped samples are not counted.
    """
    optimizer = resolved_optimizer(training)
    samples = optimizer.warmup_samples
    if optimizer.warmup_tokens is not None:
        # Every sample has at least one token, so this training is long enough.
        enough = optimizer.warmup_tokens + training.batch.global_batch_size
        longer = training.model_copy(update={"train_samples": enough, "train_tokens": None, "skip": []})
        samples = trajectory(model, longer).samples_at(optimizer.warmup_tokens)
    return iterations_of_samples(training.batch, samples)


def learning_rate(
    optimizer: ResolvedOptimizer,
    consumed_samples: int,
    train_samples: int,
    *,
    consumed_tokens: int = 0,
    decay_start: int | None = None,
) -> float:
    """Return the learning rate after `consumed_samples` and `consumed_tokens`.

    The rate rises linearly in the warm-up, then decays, then stays at its minimum. The formulas are Megatron's.
    Schedule `wsd` (Hu et al. 2024, arXiv:2404.06395) keeps the peak until the cooldown and then decays linearly.

    `decay_start` is where the warm-up ends, in the unit of the decay. If it is None, the configured warm-up is used,
    which must then have that unit.
    """
    peak, least = optimizer.learning_rate, optimizer.min_learning_rate
    done, warmup = consumed_samples, optimizer.warmup_samples
    if optimizer.warmup_tokens is not None:
        done, warmup = consumed_tokens, optimizer.warmup_tokens
    if warmup and done <= warmup:
        return peak * done / warmup
    if optimizer.schedule == "constant":
        return peak
    start = warmup if decay_start is None else decay_start
    position, end = consumed_samples, optimizer.decay_samples or train_samples
    cooldown = optimizer.cooldown_samples
    if optimizer.decay_tokens is not None:
        position, end, cooldown = consumed_tokens, optimizer.decay_tokens, optimizer.cooldown_tokens
    if position > end:
        return least
    if optimizer.schedule == "wsd":
        start = max(start, end - (cooldown or end // COOLDOWN_SHARE))
    ratio = max(0, position - start) / max(1, end - start)
    shape = 0.5 * (math.cos(math.pi * ratio) + 1.0) if optimizer.schedule == "cosine" else 1.0 - ratio
    return least + shape * (peak - least)
