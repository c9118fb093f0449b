"""Check that the warm-up ends before the training and before the decay, whatever the unit of its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.checks.check_batch import has_countable_steps
from bloomery.checks.check_schedule import rate_keys
from bloomery.config.section import Contradiction
from bloomery.spec.batch import iterations_of_samples
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.learning_rate import decay_end, decay_start, learning_rate_at, warmup_iterations
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig

_SHAPE = ("training.train_samples", "training.train_tokens", "training.batch", "training.curriculum")


def warmup_contradictions(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    """Find a warm-up that is longer than the training, or that ends after the decay."""
    if not has_countable_steps(model, training):
        return []
    optimizer = resolved_optimizer(training)
    if not (optimizer.warmup_samples or optimizer.warmup_tokens):
        return []
    return _longer_than_the_training(model, training) or _longer_than_the_decay(model, training)


def warmup_keys(training: TrainingConfig) -> tuple[str, ...]:
    """Return the paths of the keys that determine the length of the warm-up. The first states the length."""
    if training.batch_scaling is not None and training.batch_scaling.warmup_iterations is not None:
        return ("training.batch_scaling.warmup_iterations", "training.batch")
    return (f"training.optimizer.warmup_{'tokens' if training.optimizer.warmup_tokens else 'samples'}",)


def _longer_than_the_training(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    """Find a warm-up that is longer than the training, such as 10,176 iterations in a training of 6,400.

    Megatron-LM computes the warm-up from the length of the decay. A length of the decay that is too large by mistake,
    as in a published script (github.com/anxuthu/megatron, bert12 b8k), therefore also gives such a warm-up.
    """
    optimizer, end = resolved_optimizer(training), trajectory(model, training).end
    warmup, unit, length = optimizer.warmup_samples, "samples", training.train_samples
    if training.train_tokens is not None:
        length = end.consumed_samples
    if optimizer.warmup_tokens is not None:
        warmup, unit, length = optimizer.warmup_tokens, "tokens", end.consumed_tokens
    if warmup <= length or not end.iteration:
        return []
    decays_by, decayed, _ = decay_end(training)
    most = min(length, decayed) if training.optimizer.schedule != "constant" and decays_by == unit else length
    key, *others = warmup_keys(training)
    stated, needed = warmup, warmup_iterations(model, training)
    if key.endswith("iterations"):
        stated, most = needed, iterations_of_samples(training.batch, most + 1) - 1
    greatest = learning_rate_at(model, training, end.consumed_samples, end.consumed_tokens)
    message = (
        f"{key} {stated}: the warm-up takes {needed:,} iterations, but the training has only {end.iteration:,}, so the "
        f"learning rate would never reach its peak of {optimizer.learning_rate:.4g}; its greatest value would be "
        f"{greatest:.4g}"
    )
    keys = (key, *others, *_SHAPE, "model.sequence_length", *rate_keys(training))
    expected = f"at most {most}, or a longer training" if most > 0 else "a longer training"
    return [Contradiction(message, keys, stated, expected)]


def _longer_than_the_decay(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    """Find a decay that ends before the warm-up, so that the learning rate would drop in one step."""
    if training.optimizer.schedule == "constant":
        return []
    optimizer, start = resolved_optimizer(training), decay_start(model, training)
    unit, end, _ = decay_end(training)
    if start <= end:
        return []
    key, iterations = f"training.optimizer.decay_{unit}", warmup_iterations(model, training)
    message = (
        f"{key} {end}: the decay would end before the warm-up, which ends after {start} {unit} ({iterations:,} "
        f"iteration{'' if iterations == 1 else 's'}), so the learning rate would drop in one step from its peak of "
        f"{optimizer.learning_rate:.4g} to {optimizer.min_learning_rate:.4g}"
    )
    keys = (key, *warmup_keys(training), *_SHAPE, "model.sequence_length", *rate_keys(training))
    return [Contradiction(message, keys, end, f"at least {start}, or a shorter warm-up")]
