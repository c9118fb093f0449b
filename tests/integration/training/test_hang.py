"""Test that a hung rank is noticed and named, that stacks are written, and that the next segment resumes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from planted_hang import PlantedHang, planted

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, SegmentStatus
from training.launch import launch_segment

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

HEARTBEAT = {"iterations": 5.0, "seconds": 4.0, "save_seconds": 20.0, "first_minutes": 5.0}
LAYOUTS = {"tensor": {"tensor": 2}, "pipeline": {"pipeline": 2}, "data": {"data": 2}}


@pytest.mark.parametrize("stops", [False, True], ids=["waits", "stopped"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rank_that_hangs_is_named_and_the_next_segment_finishes(tmp_path: Path, layout: str, stops: bool) -> None:
    config = make_run(tmp_path, stage(samples=64, heartbeat=HEARTBEAT, **LAYOUTS[layout]))
    paths = RunPaths(tmp_path)
    with planted(PlantedHang(rank=1, iteration=4, once=str(tmp_path / "hung"), stops=stops)):
        started = time.monotonic()
        first = launch_segment(config, tmp_path, 1, paths.segments / "1.json")
        seconds = time.monotonic() - started
        second = launch_segment(config, tmp_path, 2, paths.segments / "2.json")
    assert (first.status, first.fault, first.iteration) == (SegmentStatus.CRASHED, Fault.HANG, 2), first.message
    assert first.first_failure is not None
    assert (first.first_failure.rank, first.first_failure.host) == (1, os.uname().nodename)
    assert f"the training hung: rank 1 on {os.uname().nodename} made no progress for" in first.message
    assert "(iteration 4)" in first.message
    assert seconds < 300, "the limit of the start does not apply after the first iteration"
    folder = paths.hangs / "1-1"
    waiting = (folder / "0.txt").read_text()
    assert "train_step.py" in waiting
    assert json.loads((folder / "0-communications.json").read_text())["entries"]
    if stops:
        assert "its process is stopped, or the node failed" in first.message
        assert not (folder / "1.txt").exists()
        assert "rank 1: process" in (folder / "no-stacks.txt").read_text()
    else:
        assert "the other ranks wait for it" in first.message
        assert "in wait_for_ever" in (folder / "1.txt").read_text()
        assert not (folder / "no-stacks.txt").exists()
    assert (second.status, second.first_iteration) == (SegmentStatus.FINISHED, 3)
