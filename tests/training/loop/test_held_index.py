"""Test that a segment keeps the index that it opened, also if a new index replaces that index."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import make_index, stage
from ranks import run_ranks
from segments import opened

from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, new_result

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _build(paths: RunPaths, samples: int, seed: int) -> None:
    """Write an index as the workflow does."""
    made = paths.run / f"made-{seed}"
    make_index(made, samples, seed)
    tokens = made / "index/tokens"
    with new_result(Place.of(paths.results / "index.json")) as new:
        shutil.copytree(made / "index", new.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tokens"))
        manifest = new.folder / "index.json"
        manifest.write_text(manifest.read_text().replace('"tokens/', '"token_files/'))
        new.linked = {f"token_files/{path.name}": path for path in tokens.iterdir()}
    shutil.rmtree(tokens)


def _replaced(configuration: TrainStage, folder: Path) -> dict[str, Any]:
    from training.loop.run_segment import train

    paths = RunPaths(folder)
    _build(paths, configuration.training.train_samples, seed=1)
    with opened(configuration, folder) as run:
        held = run.reader.folder
        _build(paths, configuration.training.train_samples, seed=2)
        segment = train(run)
        kept = held.is_dir(), run.index.digest
    with opened(configuration, folder, 2) as run:
        return {"segment": segment, "kept": kept, "held": held.is_dir(), "digest": run.index.digest}


def test_a_segment_keeps_the_index_that_it_opened_and_the_next_one_opens_the_new_index(tmp_path: Path) -> None:
    configuration = stage(samples=64, checkpoint={"every_iterations": 100})
    (answer,) = run_ranks(_replaced, 1, configuration, tmp_path)
    assert answer["segment"].iteration == 5
    assert answer["kept"] == (True, "test-1")
    assert (answer["held"], answer["digest"]) == (False, "test-2")
