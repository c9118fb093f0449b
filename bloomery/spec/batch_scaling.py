"""Compute the peak learning rate and the warm-up of a training, from `training.batch_scaling` if it is configured.

Everything that reads one of these values calls `resolved_optimizer`. The configuration keeps the keys as they were
written, so the values follow every change of the batch. The rule `sqrt` is that of You et al. 2020 (LAMB,
arXiv:1904.00962). Its limits and a warm-up that is constant in iterations are those of published large-batch scripts
(github.com/anxuthu/megatron).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from bloomery.config.training import ResolvedOptimizer
from bloomery.spec.batch import samples_of_iterations

if TYPE_CHECKING:
    from bloomery.config.training import BatchConfig, BatchScalingConfig, OptimizerConfig, TrainingConfig


def resolved_optimizer(training: TrainingConfig) -> ResolvedOptimizer:
    """Return the optimizer's settings with the peak learning rate and the warm-up in samples or tokens.

    Skipped samples do not move the end of the warm-up, because the schedule counts them as consumed.
    """
    return _resolved(training.optimizer, training.batch, training.batch_scaling)


@lru_cache(maxsize=64)
def _resolved(optimizer: OptimizerConfig, batch: BatchConfig, scaling: BatchScalingConfig | None) -> ResolvedOptimizer:
    rate, warmup = _peak(optimizer, batch, scaling), optimizer.warmup_samples
    if scaling is not None and scaling.warmup_iterations is not None:
        warmup = samples_of_iterations(batch, scaling.warmup_iterations)
    # The values are valid by themselves, and a warm-up in samples may exceed the limit of the key.
    return ResolvedOptimizer.model_construct(**dict(optimizer) | {"learning_rate": rate, "warmup_samples": warmup})


def peak_learning_rate(training: TrainingConfig) -> float:
    """Return the peak learning rate. Unlike `resolved_optimizer`, this is fast for a ramp-up with too many sizes."""
    return _peak(training.optimizer, training.batch, training.batch_scaling)


def _peak(optimizer: OptimizerConfig, batch: BatchConfig, scaling: BatchScalingConfig | None) -> float:
    if scaling is not None:
        return scaled_learning_rate(scaling, batch.global_batch_size)
    assert optimizer.learning_rate is not None  # a training without both keys is refused when it is loaded
    return optimizer.learning_rate


def scaled_learning_rate(scaling: BatchScalingConfig, batch_samples: int) -> float:
    """Return the peak learning rate for a global batch of `batch_samples` samples."""
    rate = scaling.base_learning_rate * math.sqrt(batch_samples / scaling.base_batch)
    if scaling.floor is not None:
        rate = max(rate, scaling.floor)
    return rate if scaling.cap is None else min(rate, scaling.cap)


def describe_scaling(scaling: BatchScalingConfig) -> str:
    """Describe the rule for the peak learning rate, such as `1.000E-02 x sqrt(batch / 2048), at most 2.000E-02`."""
    limits = (("at least", scaling.floor), ("at most", scaling.cap))
    stated = [f"{words} {limit:.3E}" for words, limit in limits if limit is not None]
    return ", ".join([f"{scaling.base_learning_rate:.3E} x sqrt(batch / {scaling.base_batch})", *stated])
