"""Refuse a run before it starts if this version can plan but not train it, or train but not export it."""

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


def unexportable(model: ModelConfig) -> list[str]:
    """Return the keys and values of a network that transformers' BloomForCausalLM cannot represent."""
    found = {
        f"model.positions {model.positions}": model.positions != "alibi",
        f"model.activation {model.activation}": model.activation != "gelu",
        "model.tied_embeddings false": not model.tied_embeddings,
        "model.embedding_layernorm false": not model.embedding_layernorm,
        f"model.feed_forward_size {model.ffn_size}": model.ffn_size != 4 * model.hidden_size,
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


def refuse_unexportable(model: ModelConfig) -> None:
    """Raise ConfigError if the trained network could not be exported."""
    if lacking := unexportable(model):
        raise ConfigError(
            f"this run can be trained, but not exported yet: {', '.join(lacking)}",
            where="the run's configuration",
            expected="the workflow's target `train`, which does not export, or a network that BloomForCausalLM "
            "supports: model.positions 'alibi', model.activation 'gelu', model.tied_embeddings true, "
            "model.embedding_layernorm true, model.feed_forward_size = 4 x model.hidden_size",
        )
