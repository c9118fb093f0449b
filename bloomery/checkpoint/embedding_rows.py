"""Choose the number of embedding rows. A resumed training keeps its number of rows, whatever the new layout is."""

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
    """Return the number of embedding rows with which the network is built.

    These are the checkpoint's rows or, without a checkpoint, the padded vocabulary of this layout.
    """
    if manifest is None:
        return padded_vocabulary(tokenizer_entries, model, tensor_parallel)
    rows = manifest.vocabulary_rows
    if rows % tensor_parallel:
        sizes = [size for size in range(1, 2 * tensor_parallel + 1) if rows % size == 0]
        raise ConfigError(
            f"{tensor_parallel} does not divide the {rows} embedding rows of the checkpoint (trained with "
            f"tensor-parallel size {manifest.tensor_parallel})",
            where="training.parallel.tensor",
            expected=f"one of {', '.join(map(str, sizes))}; the number of rows cannot change during a training",
        )
    return rows
