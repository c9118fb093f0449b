"""Rows of the embedding of a training that goes on: those that it began with, whatever the layout now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError
from bloomery.spec.parameters import padded_vocabulary

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.contracts.checkpoint import CheckpointManifest


def embedding_rows(
    manifest: CheckpointManifest | None, tokenizer_entries: int, model: ModelConfig, tensor_parallel: int
) -> int:
    """Rows to build the network with: the checkpoint's, or, without one, the padded vocabulary of this layout.

    Raises:
        ConfigError: the tensor-parallel size does not divide the checkpoint's rows.
    """
    if manifest is None:
        return padded_vocabulary(tokenizer_entries, model, tensor_parallel)
    rows = manifest.vocabulary_rows
    if rows % tensor_parallel:
        sizes = [size for size in range(1, 2 * tensor_parallel + 1) if rows % size == 0]
        raise ConfigError(
            f"{tensor_parallel} does not divide the {rows} embedding rows of the checkpoint (trained with tensor "
            f"{manifest.tensor_parallel})",
            where="training.parallel.tensor",
            expected=f"one of {', '.join(map(str, sizes))}; a training keeps the rows that it began with",
        )
    return rows
