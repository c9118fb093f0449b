"""The files of an exported model, known before it is trained, so that the workflow can name them all as outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.config.tokens import smallest_vocabulary
from bloomery.spec.parameters import parameter_count, planned_rows

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

MAX_SHARD_BYTES = 5_000_000_000
"""Default size of a shard, as in transformers; the Hub's uploads are comfortable up to about 20 GB."""

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
DTYPE_BYTES = {"bfloat16": 2, "float32": 4}

MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "README.md")
"""What an exported model consists of besides its weights and parity.json."""


@dataclass(frozen=True)
class WeightFiles:
    """How the weights are written."""

    file: str
    """One file with all weights, or the index of several."""
    shard_bytes: int
    """Greatest size of one."""


def weight_files(config: RunConfig) -> WeightFiles:
    """The file that holds or lists the weights of `config`'s model.

    A small corpus may give a smaller vocabulary than the configured one. A model that is split only with the configured
    one gets smaller shards, so that it is split with any.
    """
    model, tokenizer = config.model, config.tokenizer
    largest = planned_rows(config) if config.export.vocabulary == "keep" else tokenizer.vocabulary_size
    item = DTYPE_BYTES[config.export.dtype]
    if parameter_count(model, largest) * item <= MAX_SHARD_BYTES:
        return WeightFiles(WEIGHTS_NAME, MAX_SHARD_BYTES)
    fewest = smallest_vocabulary(tokenizer.reserved_tokens) if tokenizer.existing is None else 1
    least = parameter_count(model, fewest) * item
    return WeightFiles(INDEX_NAME, min(MAX_SHARD_BYTES, least - 1))
