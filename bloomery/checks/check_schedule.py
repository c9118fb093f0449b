"""Check that the keys of the learning-rate schedule do not contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction
from bloomery.spec.batch_scaling import peak_learning_rate

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig, TrainingConfig

_SCALING = "training.batch_scaling"


def schedule_contradictions(training: TrainingConfig) -> list[Contradiction]:
    """Find keys of the learning-rate schedule that contradict each other."""
    optimizer, section = training.optimizer, "training.optimizer"
    decay = optimizer.decay_samples or training.train_samples
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    if decay > training.train_samples:
        message = f"training: optimizer.decay_samples {decay} exceeds train_samples {training.train_samples}"
        keys = (f"{section}.decay_samples", "training.train_samples")
        problems.append(Contradiction(message, keys, decay, f"at most {training.train_samples}"))
    if optimizer.decay_tokens and training.train_tokens and optimizer.decay_tokens > training.train_tokens:
        message = (
            f"training: optimizer.decay_tokens {optimizer.decay_tokens} exceeds train_tokens {training.train_tokens}"
        )
        keys = (f"{section}.decay_tokens", "training.train_tokens")
        problems.append(Contradiction(message, keys, optimizer.decay_tokens, f"at most {training.train_tokens}"))
    for name, what in (("decay", "set the end of the decay"), ("warmup", "set the length of the warm-up")):
        tokens = getattr(optimizer, f"{name}_tokens")
        if tokens and getattr(optimizer, f"{name}_samples"):
            message = f"training: optimizer.{name}_tokens and {name}_samples both {what}"
            keys = (f"{section}.{name}_tokens", f"{section}.{name}_samples")
            problems.append(Contradiction(message, keys, tokens, "only one of them"))
    if optimizer.min_learning_rate > (peak := peak_learning_rate(training)):
        name = "learning_rate" if training.batch_scaling is None else "the learning rate of batch_scaling,"
        message = f"training: optimizer.min_learning_rate {optimizer.min_learning_rate} exceeds {name} {peak}"
        keys = (f"{section}.min_learning_rate", *rate_keys(training))
        problems.append(Contradiction(message, keys, optimizer.min_learning_rate, f"at most {peak}"))
    return [*problems, *_scaling_problems(training), *_cooldown_problems(optimizer)]


def rate_keys(training: TrainingConfig) -> tuple[str, ...]:
    """Return the paths of the keys that determine the peak learning rate."""
    if training.batch_scaling is None:
        return ("training.optimizer.learning_rate",)
    names = ("base_learning_rate", "base_batch", "rule", "floor", "cap")
    return (*(f"{_SCALING}.{name}" for name in names), "training.batch.global_batch_size")


def _scaling_problems(training: TrainingConfig) -> list[Contradiction]:
    """Find a learning rate or a warm-up that is stated twice, and limits of `batch_scaling` that exclude each other."""
    scaling, optimizer, section = training.batch_scaling, training.optimizer, "training.optimizer"
    problems: list[Contradiction] = []
    if scaling is None:
        return problems
    if optimizer.learning_rate is not None:
        peak = peak_learning_rate(training)
        message = (
            f"training: optimizer.learning_rate {optimizer.learning_rate} and batch_scaling, which computes {peak:g}, "
            "both set the peak learning rate"
        )
        keys: tuple[str, ...] = (f"{section}.learning_rate", *rate_keys(training))
        problems.append(Contradiction(message, keys, optimizer.learning_rate, "only one of them"))
    for name in ("warmup_samples", "warmup_tokens"):
        if scaling.warmup_iterations is not None and (value := getattr(optimizer, name)):
            message = (
                f"training: optimizer.{name} {value} and batch_scaling.warmup_iterations {scaling.warmup_iterations} "
                "both set the length of the warm-up"
            )
            keys = (f"{section}.{name}", f"{_SCALING}.warmup_iterations")
            problems.append(Contradiction(message, keys, value, "only one of them"))
    if scaling.floor is not None and scaling.cap is not None and scaling.floor > scaling.cap:
        message = f"training: batch_scaling.floor {scaling.floor} exceeds batch_scaling.cap {scaling.cap}"
        keys = (f"{_SCALING}.floor", f"{_SCALING}.cap")
        problems.append(Contradiction(message, keys, scaling.floor, f"at most {scaling.cap}"))
    return problems


def _cooldown_problems(optimizer: OptimizerConfig) -> list[Contradiction]:
    """Find a cooldown without the schedule `wsd`, and a cooldown in another unit than the end of the decay."""
    section, problems = "training.optimizer", []
    in_force = "cooldown_tokens" if optimizer.decay_tokens is not None else "cooldown_samples"
    for name in ("cooldown_samples", "cooldown_tokens"):
        value = getattr(optimizer, name)
        if value is None:
            continue
        if optimizer.schedule != "wsd":
            message = f"training: optimizer.{name} {value}: schedule {optimizer.schedule!r} has no cooldown"
            keys = (f"{section}.{name}", f"{section}.schedule")
            problems.append(Contradiction(message, keys, value, f"no {name} key, or optimizer.schedule 'wsd'"))
        elif name != in_force:
            unit = in_force.partition("_")[2]
            message = (
                f"training: optimizer.{name} {value}: the end of the decay is stated in {unit}, so the cooldown must "
                "have the same unit"
            )
            keys = (f"{section}.{name}", f"{section}.decay_tokens")
            problems.append(Contradiction(message, keys, value, f"no {name} key, and {in_force} instead"))
    return problems
