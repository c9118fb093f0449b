"""Compute how much disk space the next checkpoint of a training needs."""

from __future__ import annotations

from bloomery.base.errors import InputError
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import newest_manifest
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.spec.checkpoint_size import checkpoint_size


def next_checkpoint_bytes(stage: TrainStage, paths: RunPaths) -> int | None:
    """Return the size of the next checkpoint, or None if the index is not readable at this moment.

    The training opens the index later and reports its errors.
    """
    try:
        index = read_index_manifest(paths.index_manifest)
    except InputError:
        return None
    newest, tensor = newest_manifest(paths.checkpoints), stage.training.parallel.tensor
    rows = embedding_rows(newest, index.vocabulary_size, stage.model, tensor)
    return checkpoint_size(stage.model, stage.training, rows, len(index.validation_sets)).total
