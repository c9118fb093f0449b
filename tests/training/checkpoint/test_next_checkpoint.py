"""Test the planned size of the next checkpoint."""

from __future__ import annotations

from pathlib import Path

from fabricated_training import make_run, stage

from bloomery.base.atomic import write_json
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.spec.checkpoint_size import checkpoint_size
from training.checkpoint.next_checkpoint import next_checkpoint_bytes


def test_more_than_8_validation_sets_make_the_checkpoint_of_short_samples_larger(tmp_path: Path) -> None:
    configuration, paths = stage(samples=16), RunPaths(tmp_path)
    make_run(tmp_path, configuration)
    before = next_checkpoint_bytes(configuration, paths)
    index = read_index_manifest(paths.index_manifest)
    filled, empty = index.validation[0], index.validation[1].model_copy(update={"samples": 0})
    sets = [filled.model_copy(update={"name": f"validation/{number}"}) for number in range(20)]
    write_json(paths.index_manifest, index.model_copy(update={"validation": [*sets, empty]}).model_dump(mode="json"))
    after = next_checkpoint_bytes(configuration, paths)
    assert before is not None
    assert after is not None
    sizes = [checkpoint_size(configuration.model, configuration.training, 512, number).total for number in (2, 20)]
    assert [before, after] == sizes
    assert after > before
