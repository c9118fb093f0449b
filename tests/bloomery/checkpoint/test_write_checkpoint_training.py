"""Test that a training starts from a checkpoint without moments that no training saved, as an import writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from manifest_before_training import manifest_before_training
from ranks import run_ranks
from segments import opened, steps

from bloomery.checkpoint.optimizer_state import OptimizerState
from bloomery.checkpoint.software_versions import software_versions
from bloomery.checkpoint.weights import Checkpoint
from bloomery.checkpoint.write_checkpoint import write_checkpoint
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import REFERENCE_NAME, step_folders, step_name
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _train(configuration: TrainStage, folder: Path) -> int:
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        began = run.position.iteration
        train(run)
    return int(began)


def test_a_training_on_another_layout_starts_from_imported_weights(tmp_path: Path) -> None:
    run_ranks(_train, 1, stage(samples=64), tmp_path / "trained")
    source = Checkpoint(step_folders(tmp_path / "trained" / "train" / "checkpoints")[0])
    # The new training has other initial weights, because its seed differs.
    new = stage(samples=32, tensor=2).model_copy(update={"seed": 8})
    make_run(tmp_path / "new", new)
    paths = RunPaths(tmp_path / "new")
    manifest = manifest_before_training(
        new, read_index_manifest(paths.index_manifest), source.manifest.vocabulary_rows, software_versions()
    )
    write_checkpoint(
        paths.checkpoints / step_name(0),
        manifest,
        OptimizerState(source).part,
        copies={REFERENCE_NAME: source.folder / REFERENCE_NAME},
    )
    assert run_ranks(_train, 2, new, paths.run) == [0, 0]
    losses = [steps(tmp_path / name)[1]["loss"] for name in ("trained", "new")]
    # Both trainings begin with the same samples. The weights of the second one are trained.
    assert losses[1] < losses[0] - 0.5
    assert step_folders(paths.checkpoints)[0].name > step_name(0)
