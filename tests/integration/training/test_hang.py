"""Test that a hung rank is noticed and named, that stacks are written, and that the next segment resumes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from planted_hang import PlantedHang, planted

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, SegmentStatus
from training.segments.launch import launch_segment

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

HEARTBEAT = {"iterations": 5.0, "seconds": 4.0, "save_seconds": 20.0, "first_minutes": 5.0}


@pytest.mark.parametrize(
    ("layout", "rank", "stops"),
    [({"tensor": 2, "pipeline": 2}, 3, False), ({"pipeline": 2}, 1, False), ({"data": 2}, 1, True)],
    ids=["tensor-and-stages", "stages", "replicas-stopped"],
)
def test_a_rank_that_hangs_is_named_and_the_next_segment_finishes(
    tmp_path: Path, layout: dict[str, int], rank: int, stops: bool
) -> None:
    config = make_run(tmp_path, stage(samples=64, heartbeat=HEARTBEAT, **layout))
    paths = RunPaths(tmp_path)
    with planted(PlantedHang(rank=rank, iteration=4, once=str(tmp_path / "hung"), stops=stops)):
        first = launch_segment(config, tmp_path, 1, paths.segments / "1.json")
        second = launch_segment(config, tmp_path, 2, paths.segments / "2.json")
    assert first is not None
    assert second is not None
    assert (first.status, first.fault, first.iteration) == (SegmentStatus.CRASHED, Fault.HANG, 2), first.message
    assert first.first_failure is not None
    assert (first.first_failure.rank, first.first_failure.host) == (rank, os.uname().nodename)
    expected = f"the training hung in iteration 4: rank {rank} on {os.uname().nodename} made no progress for "
    assert first.message.startswith(expected)
    # The limit of 5 minutes for the start does not apply. The usual iteration takes less than a second.
    assert float(first.message.removeprefix(expected).partition(" s")[0]) < 100
    folder = paths.hangs / "1-1"
    waiting = (folder / "0.txt").read_text()
    assert "train_step.py" in waiting
    assert json.loads((folder / "0-communications.json").read_text())["entries"]
    if stops:
        assert "its process is stopped, or the node failed" in first.message
        assert not (folder / f"{rank}.txt").exists()
        assert f"rank {rank}: process" in (folder / "no-stacks.txt").read_text()
    else:
        assert "the other ranks wait for it" in first.message
        assert "in wait_for_ever" in (folder / f"{rank}.txt").read_text()
        assert not (folder / "no-stacks.txt").exists()
    assert (second.status, second.first_iteration) == (SegmentStatus.FINISHED, 3)
