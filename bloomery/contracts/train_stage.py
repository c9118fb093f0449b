"""Read the training's section of the configuration (config/train.json), with the length of the training taken from the
index."""

from __future__ import annotations

from pathlib import Path

from bloomery.config.stages import TrainStage, read_stage
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import effective


def read_configured(path: Path, paths: RunPaths) -> TrainStage:
    """Read the training's section as configured.

    If `training.train_epochs` states the length, `training.train_samples` is the number of samples in the run's index.

    Raises:
        InputError: the section or the index is missing or damaged.
    """
    stage = read_stage(path, TrainStage)
    if stage.training.train_epochs is None:
        return stage
    samples = read_index_manifest(paths.index_manifest).train_samples
    return stage.model_copy(update={"training": stage.training.model_copy(update={"train_samples": samples})})


def read_effective(path: Path, paths: RunPaths) -> TrainStage:
    """Read the training's section as `read_configured` does, with all sample ranges that the run skips.

    Raises:
        InputError: the section, the index or the run's file of ranges is missing or damaged.
    """
    return effective(read_configured(path, paths), paths)
