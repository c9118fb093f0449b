"""Refuse a run before it starts if this version can plan but not train it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig


def untrainable(model: ModelConfig) -> list[str]:
    """Return the keys and values of a training that this version's engine does not support."""
    return [] if model.family == "gpt" else [f"model.family {model.family}"]


def refuse_untrainable(model: ModelConfig) -> None:
    """Raise ConfigError if the engine does not support the run."""
    if lacking := untrainable(model):
        raise ConfigError(
            f"this run can be planned, but not trained yet: {', '.join(lacking)}",
            where="the run's configuration",
            expected="model.family 'gpt', as in config/models/tr11-176b.yaml",
        )
