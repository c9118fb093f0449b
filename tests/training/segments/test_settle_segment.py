"""Test how the end of a training job is recorded if its launcher could not record it."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage

from bloomery.base.errors import BloomeryError, CheckFailedError, TryAgainError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, Segment, SegmentStatus, read_segment
from bloomery.contracts.segment_start import SegmentStart, write_start
from training.segments.segment_record import read_history
from training.segments.settle_segment import settle_segment

CONFIGURATION = stage(segment={"max_crashes": 1})


class Run:
    def __init__(self, folder: Path) -> None:
        self.config, self.paths = make_run(folder, CONFIGURATION), RunPaths(folder)

    def begin(self, number: int = 1, job: str = "17", **fields: object) -> None:
        """Write what a launcher writes when it begins."""
        started = f"2026-01-01T00:00:0{number}Z"
        write_start(self.paths, SegmentStart(number=number, job=job, host="a", pid=1, started=started, **fields))

    def settle(self, state: str | None, number: int = 1, job: str = "17") -> Segment:
        output = self.paths.segments / f"{number}.json"
        settle_segment(self.config, self.paths.run, number, output, job, state)
        return read_segment(output)


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ("TIMEOUT", Fault.TIME_LIMIT),
        ("PREEMPTED", Fault.PREEMPTED),
        ("NODE_FAIL", Fault.NODE),
        ("OUT_OF_MEMORY", Fault.MEMORY),
        ("FAILED", Fault.PROCESS),
        (None, Fault.LOST),
    ],
)
def test_a_fault_of_the_cluster_continues_the_chain(tmp_path: Path, state: str | None, fault: Fault) -> None:
    run = Run(tmp_path)
    run.begin(iteration=0)
    save_manifest(run.paths, CONFIGURATION, 2, 16)
    done = run.settle(state)
    assert (done.status, done.fault, done.job) == (SegmentStatus.CRASHED, fault, "17")
    assert (done.iteration, done.checkpoint, done.new_checkpoint, done.crashes) == (2, "step00000002", True, 1)
    # A second call changes nothing.
    assert run.settle("CANCELLED") == done
    assert len(read_history(run.paths, 1)) == 1


def test_a_job_that_ended_before_its_launcher_began_counts_as_a_crash(tmp_path: Path) -> None:
    done = Run(tmp_path).settle("NODE_FAIL")
    assert (done.status, done.fault, done.crashes, done.nodes) == (SegmentStatus.CRASHED, Fault.NODE, 1, ())


def test_the_budget_of_crashes_ends_the_chain(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.settle("NODE_FAIL")
    run.begin(2, "18", iteration=0)
    with pytest.raises(CheckFailedError, match="crashed 2 times since its last new checkpoint"):
        run.settle("TIMEOUT", 2, "18")
    assert not (run.paths.segments / "2.json").exists()


def test_a_cancelled_job_is_a_stop_by_a_person(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(iteration=0)
    for _ in range(2):
        with pytest.raises(TryAgainError, match="job 17 was cancelled"):
            run.settle("CANCELLED")
    assert [each.status for each in read_history(run.paths, 1)] == [SegmentStatus.STOPPED]


def test_an_error_that_the_launcher_recorded_ends_the_chain(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(error="config/train.json: wrong", exit_code=2)
    with pytest.raises(BloomeryError, match="wrong") as raised:
        run.settle("FAILED")
    assert raised.value.exit_code == 2
    assert not read_history(run.paths, 1)


def test_a_start_of_another_job_does_not_count(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(error="config/train.json: wrong", exit_code=2, job="16")
    assert run.settle("FAILED").status is SegmentStatus.CRASHED
