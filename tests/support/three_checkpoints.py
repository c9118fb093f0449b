"""Make a run with checkpoints after iterations 2, 4 and 6, for tests of roll-backs."""

from __future__ import annotations

from pathlib import Path

from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage

from bloomery.contracts.paths import RunPaths

TRAINED = stage(samples=64, on_change="refuse", batch={"micro_batch_size": 2, "global_batch_size": 8})


def make_three_checkpoints(run: Path) -> RunPaths:
    """Make the run. Each iteration has 8 samples."""
    make_run(run, TRAINED)
    paths = RunPaths(run)
    for iteration in (2, 4, 6):
        save_manifest(paths, TRAINED, iteration, 8 * iteration)
    return paths


def saved(paths: RunPaths) -> list[str]:
    """Return the names of the run's checkpoints, oldest first."""
    return sorted(path.name for path in paths.checkpoints.glob("step*"))
