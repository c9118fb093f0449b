"""Check that the keys of the learning-rate schedule do not contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig, TrainingConfig


def schedule_contradictions(training: TrainingConfig) -> list[Contradiction]:
    """Find keys of the learning-rate schedule that contradict each other."""
    optimizer, section = training.optimizer, "training.optimizer"
    decay = optimizer.decay_samples or training.train_samples
    warmup, samples, rate = f"{section}.warmup_samples", f"{section}.decay_samples", f"{section}.learning_rate"
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    least = min(decay, training.train_samples)
    if optimizer.warmup_samples > least:
        message = (
            f"training: optimizer.warmup_samples {optimizer.warmup_samples} exceeds "
            f"min(decay_samples, train_samples) = {least}: the learning rate would never reach its peak"
        )
        keys = (warmup, "training.train_samples", samples)
        problems.append(Contradiction(message, keys, optimizer.warmup_samples, f"at most {least}"))
    if decay > training.train_samples:
        message = f"training: optimizer.decay_samples {decay} exceeds train_samples {training.train_samples}"
        keys = (samples, "training.train_samples")
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
    if optimizer.min_learning_rate > optimizer.learning_rate:
        message = (
            f"training: optimizer.min_learning_rate {optimizer.min_learning_rate} exceeds "
            f"learning_rate {optimizer.learning_rate}"
        )
        keys = (f"{section}.min_learning_rate", rate)
        right = f"at most {optimizer.learning_rate}"
        problems.append(Contradiction(message, keys, optimizer.min_learning_rate, right))
    return [*problems, *_cooldown_problems(optimizer), *_kind_problems(optimizer)]


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


def _kind_problems(optimizer: OptimizerConfig) -> list[Contradiction]:
    if optimizer.kind == "sgd" or not optimizer.momentum:
        return []
    message = (
        f"training: optimizer.momentum {optimizer.momentum} applies only to optimizer.kind 'sgd', but the kind is "
        f"{optimizer.kind!r}, which uses beta1 instead"
    )
    keys = ("training.optimizer.momentum", "training.optimizer.kind")
    return [Contradiction(message, keys, optimizer.momentum, "no momentum key, or optimizer.kind 'sgd'")]
