"""Test that starts without progress are counted and end the chain of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from training.resume.count_starts import count_start, forget_starts

CRASHED = Segment(
    number=3,
    status=SegmentStatus.CRASHED,
    first_iteration=0,
    iteration=100,
    total_iterations=1000,
    consumed_samples=0,
    consumed_tokens=0,
    checkpoint="step00000100",
    identity="x",
    message="its processes ended with code 1",
)


def test_starts_without_a_new_checkpoint_end_the_chain(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    for _ in range(3):
        count_start(paths, 100, 3, CRASHED)
    with pytest.raises(CheckFailedError) as caught:
        count_start(paths, 100, 3, CRASHED)
    assert "3 starts in a row saved no new checkpoint" in str(caught.value)
    assert "the last attempt ended with status crashed: its processes ended with code 1" in str(caught.value)
    assert "within 3 starts (training.segment.max_restarts_without_progress)" in str(caught.value)
    for _ in range(3):
        count_start(paths, 100, 3, CRASHED)  # a user starts the run again


def test_a_damaged_count_restarts_at_zero(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    count_start(paths, 100, 1, None)
    for damaged in ("", "[]", '{"newest_iteration": 100}'):
        paths.starts.write_text(damaged)
        count_start(paths, 100, 1, None)


@pytest.mark.parametrize("newest", [None, 0, 100])
def test_a_changed_checkpoint_and_the_end_of_training_reset_the_count(tmp_path: Path, newest: int | None) -> None:
    paths = RunPaths(tmp_path)
    count_start(paths, newest, 1, None)
    count_start(paths, 200, 1, None)
    count_start(paths, newest, 1, None)
    with pytest.raises(CheckFailedError):
        count_start(paths, newest, 1, None)
    count_start(paths, newest, 1, None)
    forget_starts(paths)
    count_start(paths, newest, 1, None)
