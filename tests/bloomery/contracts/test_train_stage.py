"""Test that the index gives a training its length if the configuration states the length in epochs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_training import make_run, stage

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import Skip, Skips, write_skips
from bloomery.contracts.train_stage import read_configured, read_effective


def in_epochs(run: Path) -> Path:
    """Make a run with an index of 128 samples, and a section that states the length in epochs. Return its path."""
    path = make_run(run, stage(samples=64))
    values = read_json(path)
    values["training"] |= {"train_epochs": 2.0, "train_samples": 1}
    write_json(path, values)
    return path


def test_the_length_is_the_number_of_samples_of_the_index(tmp_path: Path) -> None:
    found = read_configured(in_epochs(tmp_path), RunPaths(tmp_path))
    assert (found.training.train_samples, found.training.train_epochs) == (128, 2.0)


def test_a_length_in_samples_needs_no_index(tmp_path: Path) -> None:
    path = make_run(tmp_path, stage(samples=64))
    RunPaths(tmp_path).index_manifest.unlink()
    assert read_configured(path, RunPaths(tmp_path)).training.train_samples == 64


def test_a_missing_index_is_an_error(tmp_path: Path) -> None:
    path = in_epochs(tmp_path)
    RunPaths(tmp_path).index_manifest.unlink()
    with pytest.raises(InputError, match=r"index\.json"):
        read_configured(path, RunPaths(tmp_path))


def test_the_effective_section_contains_the_skipped_samples(tmp_path: Path) -> None:
    path, paths = in_epochs(tmp_path), RunPaths(tmp_path)
    write_skips(paths, Skips(skips=[Skip(from_sample=8, to_sample=16, reason="spike")]))
    found = read_effective(path, paths)
    assert [(each.from_sample, each.to_sample) for each in found.training.skip] == [(8, 16)]
    assert found.training.train_samples == 128
