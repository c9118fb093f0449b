"""Test that a heartbeat is read as it was written, and that a damaged or half-written one is not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from heartbeats import group, heartbeat

from bloomery.contracts.heartbeat import (
    beat_seconds,
    heartbeat_path,
    read_heartbeat,
    read_heartbeats,
    write_heartbeat,
)


def test_the_newest_record_of_each_rank_is_read(tmp_path: Path) -> None:
    long = heartbeat(10, channels=(group(3, *range(2000)),))
    for beat in (heartbeat(2), long, heartbeat(10), heartbeat(2, beat=4)):
        write_heartbeat(tmp_path, beat)
    assert list(read_heartbeats(tmp_path).items()) == [(2, heartbeat(2, beat=4)), (10, heartbeat(10))]


def test_a_file_has_a_fixed_size_up_to_4_kib(tmp_path: Path) -> None:
    """With 384 ranks in 48 replicas of 8, each rank shares the group of all ranks and some small groups."""
    groups = (group(10**9, *range(384)), group(10**9, *range(0, 384, 8)), group(10**9, *range(8)))
    write_heartbeat(tmp_path, heartbeat(383, channels=groups, call=groups[0]))
    assert heartbeat_path(tmp_path, 383).stat().st_size == 4096
    write_heartbeat(tmp_path, heartbeat(383))
    assert heartbeat_path(tmp_path, 383).stat().st_size == 4096


@pytest.mark.parametrize("damage", [b"", b"{}", b"00000000 {}", b"x" * 4096, b"\xff\xfe"])
def test_a_damaged_file_has_no_record(tmp_path: Path, damage: bytes) -> None:
    heartbeat_path(tmp_path, 1).write_bytes(damage)
    assert read_heartbeat(heartbeat_path(tmp_path, 1)) is None
    assert read_heartbeats(tmp_path) == {}


def test_a_mixture_of_two_records_is_not_read(tmp_path: Path) -> None:
    path = heartbeat_path(tmp_path, 1)
    write_heartbeat(tmp_path, heartbeat(1, idle_seconds=10.5, allowed_seconds=65.0))
    old = path.read_bytes()
    write_heartbeat(tmp_path, heartbeat(1, idle_seconds=11.5, allowed_seconds=66.0))
    new = path.read_bytes()
    middle = new.index(b"allowed_seconds")
    path.write_bytes(new[:middle] + old[middle:])
    assert read_heartbeat(path) is None


def test_a_missing_folder_and_other_files_have_no_records(tmp_path: Path) -> None:
    assert read_heartbeats(tmp_path / "missing") == {}
    (tmp_path / "failed-0.json").write_text("[]")
    (tmp_path / "3.json").mkdir()
    assert read_heartbeats(tmp_path) == {}


def test_at_most_64_records_are_written_per_second() -> None:
    assert beat_seconds(1) == beat_seconds(64) == 1.0
    assert 384 / beat_seconds(384) == 64
