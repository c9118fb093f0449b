"""Declare every parameter of the network once, without torch. Each model family has its own module."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from bloomery.spec import bert, gpt, t5
from bloomery.spec.placement import Parameter

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig

_FAMILIES: dict[str, ModuleType] = {"gpt": gpt, "bert": bert, "t5": t5}


def layer_count(model: ModelConfig) -> int:
    """Return the number of pipeline layers."""
    count: int = _FAMILIES[model.family].layer_count(model)
    return count


def padded_vocabulary(tokenizer_entries: int, model: ModelConfig, tensor_parallel: int) -> int:
    """Return the number of embedding rows.

    This is the configured value, or the tokenizer's size rounded up to a multiple of vocabulary_multiple x
    tensor_parallel (Megatron's rule).
    """
    if model.padded_vocabulary_size is not None:
        return model.padded_vocabulary_size
    multiple = model.vocabulary_multiple * tensor_parallel
    return -(-tokenizer_entries // multiple) * multiple


def planned_rows(config: RunConfig) -> int:
    """Return the number of embedding rows that a run has if its tokenizer reaches the configured vocabulary size."""
    return padded_vocabulary(config.tokenizer.vocabulary_size, config.model, config.training.parallel.tensor)


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Return every parameter of the model with an embedding of `vocabulary_rows` rows, in pipeline order."""
    declared: list[Parameter] = _FAMILIES[model.family].declare(model, vocabulary_rows)
    return declared


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """Return the number of parameters by the family's formula (BLOOM-176B: 176,247,271,424)."""
    count: int = _FAMILIES[model.family].parameter_count(model, vocabulary_rows)
    return count
