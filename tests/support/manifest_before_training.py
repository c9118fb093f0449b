"""Make the manifest of a checkpoint before the first iteration of a training on an index."""

from __future__ import annotations

from collections.abc import Mapping

from bloomery.checkpoint.write_checkpoint import first_manifest
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.contracts.resume_policy import identity
from bloomery.contracts.sample_prefix import sample_prefix


def manifest_before_training(
    stage: TrainStage, index: IndexManifest, rows: int, versions: Mapping[str, str]
) -> CheckpointManifest:
    """Return the manifest, without files. `rows` is the number of embedding rows."""
    return first_manifest(
        stage,
        identity=identity(stage, index),
        prefix=sample_prefix(index, 0),
        vocabulary_size=index.vocabulary_size,
        vocabulary_rows=rows,
        versions=versions,
    )
