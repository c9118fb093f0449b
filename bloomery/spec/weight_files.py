"""Predict the files of an exported model before it is trained, so that the workflow can name them all as outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError
from bloomery.config.tokens import smallest_vocabulary
from bloomery.spec.parameters import parameter_count, planned_rows

if TYPE_CHECKING:
    from bloomery.config.delivery import ExportConfig
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig

MAX_SHARD_BYTES = 5_000_000_000
"""Default size of a shard in bytes, as in transformers. Files up to about 20 GB upload to the Hub without problems."""

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
PRECISION_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Data type of the trained weights, by `training.precision`."""

MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "README.md")
"""Files of an exported model, besides its weights and parity.json."""


@dataclass(frozen=True)
class WeightFiles:
    """File layout of the exported weights."""

    file: str
    """Name of the single file with all weights, or of the index of several files."""
    shard_bytes: int
    """Largest size of one weight file, in bytes."""


def export_dtype(export: ExportConfig, precision: str) -> str:
    """Return the data type of the exported weights of a training in `precision`, such as `bfloat16`."""
    return export.dtype or PRECISION_DTYPES[precision]


def rounded_dtype(export: ExportConfig, precision: str) -> str | None:
    """Return the data type of the trained weights if their fp32 master weights are exported, otherwise None."""
    own = PRECISION_DTYPES[precision]
    return own if export_dtype(export, precision) == "float32" != own else None


def exported_rows(export: ExportConfig, model: ModelConfig, rows: int, entries: int) -> int:
    """Return the number of exported embedding rows, given the rows of the training and the tokenizer's entries."""
    return rows - model.masked_rows if export.vocabulary == "keep" else entries


def weight_files(config: RunConfig) -> WeightFiles:
    """Return the file layout of the weights of `config`'s model.

    A small corpus may yield a smaller vocabulary than the configured one. If the weights need several files with the
    configured vocabulary, the shards are made small enough that the weights need several files with every vocabulary.
    The workflow can therefore always name the index as an output.
    """
    model, tokenizer = config.model, config.tokenizer
    largest = exported_rows(config.export, model, planned_rows(config), tokenizer.vocabulary_size)
    item = DTYPE_BYTES[export_dtype(config.export, config.training.precision)]
    if parameter_count(model, largest) * item <= MAX_SHARD_BYTES:
        return WeightFiles(WEIGHTS_NAME, MAX_SHARD_BYTES)
    fewest = smallest_vocabulary(tokenizer.reserved_tokens) if tokenizer.existing is None else 1
    least = parameter_count(model, fewest) * item
    return WeightFiles(INDEX_NAME, min(MAX_SHARD_BYTES, least - 1))


def plan_shards(sizes: Sequence[int], max_shard_bytes: int) -> list[range]:
    """Group consecutive tensors into shards. A tensor that alone exceeds the limit gets its own shard.

    Raises:
        InputError: the limit is not positive.
    """
    if max_shard_bytes <= 0:
        raise InputError(
            f"a weight file of {max_shard_bytes} bytes cannot hold a tensor",
            where="--max-shard-size",
            expected="a size such as 5GB",
        )
    shards, start, filled = [], 0, 0
    for number, size in enumerate(sizes):
        if number > start and filled + size > max_shard_bytes:
            shards.append(range(start, number))
            start, filled = number, 0
        filled += size
    shards.append(range(start, len(sizes)))
    return shards
