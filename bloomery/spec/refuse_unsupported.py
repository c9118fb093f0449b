"""Refuse a run before it starts if this version can plan but not train it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig


def untrainable(model: ModelConfig, training: TrainingConfig) -> list[str]:
    """Return the keys and values of a training that this version's engine does not support."""
    found = {
        f"model.family {model.family}": model.family != "gpt",
        f"training.optimizer.kind {training.optimizer.kind}": training.optimizer.kind == "lamb",
    }
    return [what for what, lacking in found.items() if lacking]


def refuse_untrainable(model: ModelConfig, training: TrainingConfig) -> None:
    """Raise ConfigError if the engine does not support the run."""
    if lacking := untrainable(model, training):
        raise ConfigError(
            f"this run can be planned, but not trained yet: {', '.join(lacking)}",
            where="the run's configuration",
            expected="model.family 'gpt' with training.optimizer.kind 'adam' or 'sgd', as in "
            "config/models/tr11-176b.yaml",
        )
