"""What can be planned but not trained yet, said before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig


def untrainable(model: ModelConfig, training: TrainingConfig) -> list[str]:
    """Keys and values of a training that this version's engine has no code for."""
    found = {
        f"model.family {model.family}": model.family != "gpt",
        f"model.positions {model.positions}": model.positions != "alibi",
        "model.embedding_layernorm false": not model.embedding_layernorm,
        f"training.precision {training.precision}": training.precision == "fp16",
        "training.curriculum": training.curriculum is not None,
        "training.train_tokens": training.train_tokens is not None,
        "training.optimizer.decay_tokens": training.optimizer.decay_tokens is not None,
        f"training.optimizer.kind {training.optimizer.kind}": training.optimizer.kind != "adam",
    }
    return [what for what, lacking in found.items() if lacking]


def refuse_untrainable(model: ModelConfig, training: TrainingConfig) -> None:
    """Raise ConfigError when the engine lacks something that the run asks for."""
    if lacking := untrainable(model, training):
        raise ConfigError(
            f"can be planned, but not trained yet: {', '.join(lacking)}",
            where="the run's configuration",
            expected="a BLOOM-shaped GPT in bf16 or fp32 with Adam, such as config/models/tr11-176b.yaml",
        )
