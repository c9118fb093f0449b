"""Test the measurement of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from training.preflight.disk import disk_state


def test_space_and_speed_are_measured_and_the_file_is_removed(tmp_path: Path) -> None:
    state = disk_state(tmp_path, "probe")
    assert 0 < state.free_bytes <= shutil.disk_usage(tmp_path).total
    assert state.write_mb_per_second > 0
    assert not list(tmp_path.iterdir())


def test_a_disk_without_space_has_no_free_bytes_and_no_speed(tmp_path: Path) -> None:
    (tmp_path / "probe").symlink_to("/dev/full")
    state = disk_state(tmp_path, "probe")
    assert (state.free_bytes, state.write_mb_per_second) == (0, 0.0)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk_state(tmp_path / "missing", "probe")
