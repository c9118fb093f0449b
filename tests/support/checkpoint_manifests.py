"""Write checkpoints of a fabricated run that consist of a manifest only, and rewrite manifests of real checkpoints."""

from __future__ import annotations

from pathlib import Path

from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import MANIFEST_NAME, CheckpointManifest, read_checkpoint, step_name, write_manifest
from bloomery.contracts.file_entry import FileEntry, list_files
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import identity
from bloomery.contracts.sample_prefix import sample_prefix


def save_manifest(paths: RunPaths, trained: TrainStage, iteration: int, consumed_samples: int) -> CheckpointManifest:
    """Write the manifest of a checkpoint of `trained` and make it the newest."""
    index = read_index_manifest(paths.index_manifest)
    manifest = CheckpointManifest(
        identity=identity(trained, index),
        prefix=sample_prefix(index, consumed_samples),
        config=trained.model_dump(mode="json"),
        iteration=iteration,
        consumed_samples=consumed_samples,
        consumed_tokens=consumed_samples * trained.model.sequence_length,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        vocabulary_size=500,
        vocabulary_rows=512,
        layers=1,
        versions={},
        files={},
    )
    folder = paths.checkpoints / step_name(iteration)
    folder.mkdir(parents=True)
    write_manifest(folder, manifest)
    (paths.checkpoints / "latest").write_text(f"{folder.name}\n")
    return manifest


def files_of(checkpoint: Path) -> dict[str, FileEntry]:
    """Return the entries that the manifest of a checkpoint must list."""
    return list_files(checkpoint, omit={MANIFEST_NAME})


def list_files_again(checkpoint: Path) -> None:
    """Make the manifest of a checkpoint match its changed files."""
    write_manifest(checkpoint, read_checkpoint(checkpoint).model_copy(update={"files": files_of(checkpoint)}))
