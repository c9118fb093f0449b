"""Test which checkpoints are kept and removed, and how damaged checkpoints are treated."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import ResourceError
from bloomery.config.training_loop import CheckpointConfig
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint, step_name
from bloomery.contracts.sample_prefix import SamplePrefix
from training.checkpoint.seal_checkpoint import CheckpointFolders


def manifest(iteration: int) -> CheckpointManifest:
    return CheckpointManifest(
        identity="x",
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        config={},
        iteration=iteration,
        consumed_samples=8 * iteration,
        consumed_tokens=0,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        vocabulary_size=1,
        vocabulary_rows=1,
        layers=1,
        versions={},
        files={},
    )


def save(store: CheckpointFolders, *iterations: int) -> None:
    for iteration in iterations:
        store.begin(iteration, 0)
        (store.work(iteration) / "file").touch()
        store.seal(manifest(iteration))


def there(folder: Path) -> list[int]:
    return sorted(read_checkpoint(path).iteration for path in folder.glob("step*"))


def test_the_newest_and_the_permanent_checkpoints_are_kept(tmp_path):
    store = CheckpointFolders(tmp_path, CheckpointConfig(keep_last=2, keep_every_iterations=4, at_iterations=[3]))
    save(store, *range(1, 8))
    assert there(tmp_path) == [3, 4, 6, 7]
    assert (tmp_path / "latest").read_text() == "step00000007\n"
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_checkpoint_does_not_count_toward_keep_last(tmp_path):
    save(CheckpointFolders(tmp_path, CheckpointConfig(keep_last=2)), 2, 4, 6)
    store = CheckpointFolders(tmp_path, CheckpointConfig(keep_last=2))
    store.damaged, store.newest = frozenset({step_name(6)}), step_name(4)
    save(store, 5)
    assert there(tmp_path) == [4, 5, 6], "a damaged checkpoint newer than the newest good one is kept for inspection"
    assert not store.has(6, lambda _: True)
    save(store, 7)
    assert there(tmp_path) == [5, 7]


def test_a_damaged_checkpoint_is_replaced_when_training_reaches_its_iteration_again(tmp_path):
    save(CheckpointFolders(tmp_path, CheckpointConfig(keep_last=2)), 2, 4)
    store = CheckpointFolders(tmp_path, CheckpointConfig(keep_last=2))
    store.damaged, store.newest = frozenset({step_name(4)}), step_name(2)
    (tmp_path / step_name(4) / "file").write_text("damaged")
    save(store, 4)
    assert there(tmp_path) == [2, 4]
    assert (tmp_path / step_name(4) / "file").read_text() == ""
    assert store.has(4, lambda found: found.consumed_samples == 32)
    assert not store.has(4, lambda found: found.consumed_samples == 31)


def test_the_next_save_removes_leftovers_of_a_killed_save(tmp_path):
    for leftover in (".saving/step00000009", ".removing/step00000001"):
        (tmp_path / leftover).mkdir(parents=True)
    store = CheckpointFolders(tmp_path, CheckpointConfig(keep_last=1))
    save(store, 1, 2)
    assert there(tmp_path) == [2]
    assert not list(tmp_path.glob(".*"))


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_refused_before_writing(tmp_path):
    store = CheckpointFolders(tmp_path / "checkpoints", CheckpointConfig())
    with pytest.raises(ResourceError, match="the disk is full: a checkpoint needs"):
        store.begin(1, 1 << 60)
    assert not list((tmp_path / "checkpoints").iterdir())
