"""Test what the processes of a segment leave behind, and how it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage
from segment_file import segment as segment_record

from bloomery.base.atomic import write_json, write_text
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Fault, FirstFailure, SegmentStatus
from bloomery.contracts.segment_start import SegmentStart
from training.processes.run_processes import BY_SIGNAL, ProcessesEnd
from training.processes.watch_ranks import ReportedHang
from training.resume.resolve_resume import resolve_resume
from training.segments.segment_outcome import outcome

CONFIGURATION = stage()
START = SegmentStart(number=1, job=None, host="here", pid=1, started="2026-01-01T00:00:00Z", iteration=2)


def made(run: Path) -> RunPaths:
    make_run(run, CONFIGURATION)
    paths = RunPaths(run)
    save_manifest(paths, CONFIGURATION, 2, 16)
    return paths


@pytest.mark.parametrize(
    ("exit_code", "status", "crashes"), [(75, SegmentStatus.CRASHED, 1), (1, SegmentStatus.FAILED, 0)]
)
def test_a_temporary_fault_counts_as_a_crash_and_other_faults_fail(
    tmp_path: Path, exit_code: int, status: SegmentStatus, crashes: int
) -> None:
    paths = made(tmp_path)
    result = paths.segments / ".result-1.json"
    write_json(result, {"error": "train: Stale file handle", "exit_code": exit_code})
    segment, error = outcome(resolve_resume(CONFIGURATION, paths), paths, START, result, ProcessesEnd(1))
    assert (segment.status, segment.crashes, segment.message) == (status, crashes, "train: Stale file handle")
    assert segment.checkpoint == "step00000002"
    assert (error is None) == (status is SegmentStatus.CRASHED)
    assert not result.exists()


def test_a_signal_outside_of_slurm_is_a_stop_by_a_person(tmp_path: Path) -> None:
    paths = made(tmp_path)
    result = paths.segments / ".result-1.json"
    write_text(paths.control / STOP_FILE, BY_SIGNAL)
    write_json(result, {"segment": segment_record(1, SegmentStatus.STOPPED).model_dump(mode="json")})
    segment, error = outcome(resolve_resume(CONFIGURATION, paths), paths, START, result, ProcessesEnd(1))
    assert (segment.status, segment.fault, error) == (SegmentStatus.STOPPED, None, None)
    # The processes can also be killed before they have saved.
    segment, error = outcome(resolve_resume(CONFIGURATION, paths), paths, START, result, ProcessesEnd(1))
    assert (segment.status, segment.fault, error) == (SegmentStatus.STOPPED, None, None)


def test_killed_processes_are_a_crash(tmp_path: Path) -> None:
    paths = made(tmp_path)
    segment, error = outcome(resolve_resume(CONFIGURATION, paths), paths, START, tmp_path / "none", ProcessesEnd(-9))
    assert (segment.status, segment.fault, segment.crashes, error) == (SegmentStatus.CRASHED, Fault.PROCESS, 1, None)
    assert segment.message == "the segment's processes ended with code -9"


def test_a_hang_is_a_fault_with_the_rank_that_caused_it(tmp_path: Path) -> None:
    paths = made(tmp_path)
    rank = FirstFailure(rank=3, host="node1", ending="made no progress for 95 s")
    end = ProcessesEnd(1, ReportedHang(rank, "the training hung: rank 3"), rank)
    # A signal that arrived while the ranks hung does not make the hang a stop by a person.
    write_text(paths.control / STOP_FILE, BY_SIGNAL)
    segment, error = outcome(resolve_resume(CONFIGURATION, paths), paths, START, tmp_path / "none", end)
    assert (segment.status, segment.fault, segment.crashes) == (SegmentStatus.CRASHED, Fault.HANG, 1)
    assert (segment.message, segment.first_failure, error) == ("the training hung: rank 3", rank, None)


def test_the_rank_that_failed_first_is_recorded(tmp_path: Path) -> None:
    paths = made(tmp_path)
    rank = FirstFailure(rank=3, host="node1", ending="was ended by signal SIGKILL")
    end = ProcessesEnd(1, None, rank)
    segment, _ = outcome(resolve_resume(CONFIGURATION, paths), paths, START, tmp_path / "none", end)
    assert (segment.fault, segment.first_failure) == (Fault.PROCESS, rank)
    assert segment.message == (
        "the segment's processes ended with code 1; rank 3 on node1 failed first: it was ended by signal SIGKILL"
    )
