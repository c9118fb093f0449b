"""Test the reported progress of a training."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from fabricated_run import (
    NOW,
    configuration,
    make_run,
    write_checkpoint,
    write_ended,
    write_metrics,
)
from stopwatch import is_faster_than

from bloomery.base.atomic import write_json
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus
from bloomery.spec.batch import steps
from monitoring.status import RunState, gather_status
from monitoring.status_cli import lines

CONFIG = configuration()


def said(paths: RunPaths) -> dict[str, str]:
    return dict(lines(gather_status(paths.run, NOW)))


def test_a_running_training_reports_its_position_and_checkpoint(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    write_ended(paths, 1, SegmentStatus.TIME_LIMIT, 200)
    write_checkpoint(paths, 600, 5_000_000)
    write_json(paths.train / "lease", {"pid": os.getpid(), "host": socket.gethostname(), "job": None})
    found = gather_status(paths.run, NOW)
    progress = found.progress
    assert found.state is RunState.TRAINING
    assert progress is not None
    assert (progress.iteration, progress.samples) == (
        640,
        47_976,
    )  # the remaining samples do not fill a last batch, so it is not trained
    assert progress.age_seconds == 60
    assert progress.validation_loss == 3.5
    assert found.disk.checkpoint_bytes == 5_000_000
    row = said(paths)
    assert f"training (process {os.getpid()}" in row["state"]
    assert row["iteration"].startswith("640 of 1,108, ")
    assert row["segment 1"].startswith("time limit, 2026-11-21T")
    assert row["last checkpoint"].startswith("step00000600, ")


@pytest.mark.parametrize("done", [20, 300, 640, 1107])
def test_the_time_left_is_right_during_and_after_the_ramp_up(tmp_path: Path, done: int) -> None:
    """Each iteration takes (micro-batches + stages - 1) time slots, as in 1F1B, so the exact time left is known."""
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, done, slot_seconds=0.25)
    training = CONFIG.training
    rest = [step for step in steps(training.batch, training.train_samples) if step.iteration > done]
    expected = sum(0.25 * (step.global_batch_size / 4 + 2) for step in rest)
    progress = gather_status(paths.run, NOW).progress
    assert progress is not None
    assert progress.seconds_left == pytest.approx(expected, rel=1e-9)


def test_a_process_that_reuses_an_old_process_number_does_not_hold_the_lease(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    lease = paths.train / "lease"
    write_json(lease, {"pid": os.getpid(), "host": socket.gethostname(), "job": None})
    os.utime(lease, (1, 1))
    assert gather_status(paths.run, NOW).state is RunState.STOPPED


def test_a_pending_job_is_reported_as_waiting_not_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_ended(paths, 1, SegmentStatus.TIME_LIMIT, 100)
    # A killed job could not remove its lease.
    write_json(paths.train / "lease", {"pid": 5, "host": "gpu07", "job": "77"})
    paths.monitoring.mkdir()
    paths.slurm_runs.write_text("u\n")
    line = "8\\tu\\trule_train_segment_wildcards_2\\tPENDING\\t50:00\\t4\\t(Priority)\\tN/A\\tN/A"
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nprintf '{line}\\n'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said(paths)["state"] == "waiting in the queue to train"
    assert said(paths)["job 8"] == "train_segment: pending for 4 nodes (Priority)"


def test_a_long_run_is_read_from_its_end(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    metrics = paths.logs / "metrics.jsonl"
    end = metrics.read_bytes()
    with metrics.open("wb") as handle:
        handle.seek(64 << 30)  # a sparse hole of 64 GiB, too large to be read within the time limit
        handle.write(b"\n" + end + b'{"iteration": 641, "unfin')
    assert is_faster_than(2, lambda: gather_status(paths.run, NOW))
    progress = gather_status(paths.run, NOW).progress
    assert progress is not None
    assert progress.iteration == 640


@pytest.mark.parametrize(
    "damage",
    [b"", b"\0\0", b"[" * 200_000, b'{"number": 3}', b'{"checkpoint": "../../x"}'],
    ids=["empty", "NUL", "deep", "incomplete", "outside"],
)
@pytest.mark.parametrize("name", ["3.json", "history/3-1.json"])
def test_a_damaged_segment_file_is_named_and_the_others_are_shown(tmp_path: Path, damage: bytes, name: str) -> None:
    paths = make_run(tmp_path, CONFIG)
    for number in (1, 2, 3):
        write_ended(paths, number, SegmentStatus.TIME_LIMIT, 100 * number)
        os.utime(paths.segments / "history" / f"{number}-1.json", (NOW + number, NOW + number))
    (paths.segments / name).write_bytes(damage)
    os.utime(paths.segments / name, (NOW + 3, NOW + 3))
    rows = said(paths)
    assert rows["damaged"].startswith(f"in train/segments: {name}; restore or delete")
    assert rows["segment 2"] == "time limit, no iteration"
    assert rows["state"].startswith("stopped; the last attempt to train ended at its time limit after iteration ")
