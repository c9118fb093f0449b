"""Test that `bloomery status` reports the state of a run at any moment, from files and the queue."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fabricated_run import (
    NOW,
    configuration,
    make_run,
    touch_shards,
    write_ended,
    write_metrics,
)
from repository import ROOT

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus
from bloomery.orchestration.run_lock import RunLock
from monitoring.status import RunState, find_runs, gather_status
from monitoring.status_cli import lines
from monitoring.sync_state import SyncState, write_sync

CONFIG = configuration()
ENDED = 2**22 + 1
"""Number of a process that cannot exist, because Linux assigns numbers up to 2^22."""


def said(paths: RunPaths) -> dict[str, str]:
    return dict(lines(gather_status(paths.run, NOW)))


def status(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "status", *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": path, **environment}
    )


def test_without_a_run_the_error_names_the_command_to_type(tmp_path: Path) -> None:
    done = status(cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no run in this folder; expected: `make run`" in done.stderr
    (tmp_path / "x").mkdir()
    assert "x: not a run" in status("--run", "x", cwd=tmp_path).stderr


def test_before_training_the_status_counts_shards(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG, shards=4)
    touch_shards(paths.corpus / "raw", 4)
    touch_shards(paths.corpus / "measures", 3)
    touch_shards(paths.corpus / "raw", 6)  # leftover shards of an earlier plan must not count
    found = gather_status(paths.run, NOW)
    counts = {each.stage: (each.done, each.total) for each in found.data}
    assert counts == {
        "ingest": (4, 4),
        "measure": (3, 4),
        "judge": (0, 4),
        "clean": (0, 4),
        "count": (0, 4),
        "tokenizer": (0, 1),
        "encode": (0, 4),
        "index": (0, 1),
    }
    assert found.state is RunState.STOPPED
    assert "ingest 4/4, measure 3/4" in said(paths)["data"]
    # There is no checkpoint yet, so its size is computed with 16 bytes a parameter, or 14 for bf16.
    assert found.disk.checkpoint_bytes > 14 * 64 * 250_000
    lock = RunLock.acquire(paths.run)
    try:
        assert gather_status(paths.run, NOW).state is RunState.PREPARING
        assert f"process {os.getpid()} on {socket.gethostname()} works on this run" in said(paths)["workflow"]
    finally:
        lock.release()


def test_adopted_token_files_are_counted_without_a_corpus(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG, shards=0)
    write_json(paths.config / "token_files.json", ["theirs/00000", "theirs/00001"])
    (paths.index / "tokens/theirs").mkdir(parents=True)
    (paths.index / "tokens/theirs/00001.idx").touch()
    counts = {each.stage: (each.done, each.total) for each in gather_status(paths.run, NOW).data}
    assert counts == {"tokenizer": (0, 1), "encode": (1, 2), "index": (0, 1)}


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (SegmentStatus.STOPPED, "stopped; the last attempt to train ended by request after iteration 640"),
        (
            SegmentStatus.CRASHED,
            "stopped; the last attempt to train ended with a crash after iteration 640: torchrun [9]",
        ),
        (SegmentStatus.FAILED, "stopped; the last attempt to train ended with a failed check after iteration 640"),
        (SegmentStatus.TIME_LIMIT, "stopped; the last attempt to train ended at its time limit after iteration 640"),
        (
            SegmentStatus.ROLLED_BACK,
            "stopped; the last attempt to train ended with a roll-back to an earlier checkpoint after iteration 640",
        ),
    ],
)
def test_a_stopped_training_reports_the_reason(tmp_path: Path, ended: SegmentStatus, words: str) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    message = "torchrun\n[9]" if ended is SegmentStatus.CRASHED else ""
    write_ended(paths, 1, ended, 640, in_chain=False, message=message)
    # This file is from a shorter training that finished before train_samples was increased.
    write_json(paths.finished, {})
    # A killed launcher and a killed workflow leave these files.
    write_json(paths.train / "lease", {"pid": ENDED, "host": socket.gethostname(), "job": None})
    write_json(paths.run / ".lock", {"pid": ENDED, "host": socket.gethostname(), "command": "snakemake"})
    row = said(paths)
    assert row["state"] == words
    assert row["workflow"] == f"no workflow runs; the last was process {ENDED} on {socket.gethostname()}"
    assert row["next"] == "repeat the command that started the run, to resume the run"
    record = {"command": "snakemake --profile slurm", "folder": str(Path.cwd()), "run": str(paths.run)}
    write_json(paths.workflow_command, record)
    assert said(paths)["next"] == "snakemake --profile slurm"


def test_a_workflow_on_another_machine_is_reported_as_unknown(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    write_json(paths.run / ".lock", {"pid": 5, "host": "login-of-elsewhere", "command": "snakemake"})
    assert said(paths)["state"] == "stopped; the workflow may still run on another machine"
    assert "login-of-elsewhere; this machine cannot see whether it still runs" in said(paths)["workflow"]


def test_a_finished_run_reports_its_segments_and_the_next_command(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 1108)
    for number in range(1, 8):
        status_of = SegmentStatus.FINISHED if number == 7 else SegmentStatus.TIME_LIMIT
        write_ended(paths, number, status_of, number * 150)
    write_json(paths.finished, {})
    write_json(paths.export / "big" / "parity.json", {})
    row = said(paths)
    assert (row["state"], row["exported"]) == ("finished", "big, not published")
    assert "time left" not in row
    assert row["segments"] == "the last 6 of 7; to show all: --all"
    assert [row[f"segment {number}"].split(",")[0] for number in (2, 6, 7)] == ["time limit", "time limit", "finished"]
    assert dict(lines(gather_status(paths.run, NOW), every=True))["segment 1"].startswith("time limit, 2026-11-21T")
    assert row["next"] == f"bloomery summary --run {paths.run.as_posix()}"


def test_the_sync_reports_its_age_and_later_failures(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    assert said(paths)["sync"] == "the logs were never synced to a Hub"
    state = SyncState(synced="2026-11-21T11:20:00Z", repository="me/logs", failures=2, error="[Errno 2] no\nroute")
    write_sync(paths.sync_state, state)
    assert said(paths)["sync"] == "40 min 0 s ago to me/logs; 2 failures since then; last error: [Errno 2] no route"
    write_sync(paths.sync_state, SyncState(failures=1))
    assert said(paths)["sync"] == "never succeeded; 1 failure; last error: no reason given"


@pytest.mark.slow
def test_a_damaged_sync_state_prints_one_clear_error(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    for damage in ("{", '{"synced": "soon"}', "[1]"):
        paths.monitoring.mkdir(exist_ok=True)
        paths.sync_state.write_text(damage)
        done = status("--run", str(paths.run), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: {paths.sync_state}: not ")
        assert "Traceback" not in done.stderr


def test_without_slurm_the_queue_reports_that_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = make_run(tmp_path, CONFIG)
    assert said(paths)["queue"] == "no job of this run was sent to SLURM"
    paths.monitoring.mkdir()
    paths.slurm_runs.write_text("d2b1-uuid\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said(paths)["queue"] == "SLURM is not on this machine"
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n")
    squeue.chmod(0o755)
    assert "the scheduler does not answer (slurm_load_jobs error: Unable to contact" in said(paths)["queue"]


def test_the_queue_is_read_from_recorded_output_of_squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM 22.05's squeue printed these lines for jobs like those of the executor."""
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 640)
    paths.monitoring.mkdir()
    paths.slurm_runs.write_text("old\ndeadbeef\n")
    printed = "\n".join(
        [
            "3\tdeadbeef\t(null)\tCOMPLETED\t1:00\t1\tnode1\t2026-11-21T10:30:16\t2026-11-21T10:30:02",
            "2\tdeadbeef\trule_train_segment_wildcards_3\tPENDING\t50:00\t4\t(Resources)\t2026-11-21T10:35:14\t2026-11-21T10:30:04",
            "4\tdeadbeef\trule_measure_wildcards_s_00001\tPENDING\t50:00\t1\t(Priority)\tN/A\t2026-11-21T10:30:05",
            "5\tdeadbeef\trule_measure_wildcards_s_00002\tRUNNING\t50:00\t1\tnode3\t2026-11-21T10:30:14\t2026-11-21T10:30:05",
            "1\tdeadbeef\trule_train_segment_wildcards_2\tRUNNING\t4:55\t2\tnode[1-2]\t2026-11-21T10:30:14\t2026-11-21T10:30:03",
        ]
    )
    (tmp_path / "printed").write_text(printed + "\n")
    (tmp_path / "squeue").write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nwhile read -r line; do echo "$line"; done < {tmp_path}/printed\n'
    )
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC+2")
    time.tzset()
    try:
        row = said(paths)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert "--name=old,deadbeef" in (tmp_path / "asked").read_text()
    assert row["state"] == "training"
    assert row["job 1"] == "train_segment: running on node[1-2], 4 min 55 s left"
    assert row["job 2"] == ("train_segment: pending for 4 nodes (Resources), expected to start 2026-11-21T12:35:14Z")
    assert row["2 jobs"] == "measure: 1 running, 1 pending"


def test_after_the_last_segment_the_run_is_exporting_and_then_finished(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_metrics(paths, CONFIG, 1108)
    lock = RunLock.acquire(paths.run)
    try:
        write_ended(paths, 1, SegmentStatus.TIME_LIMIT, 600)
        assert gather_status(paths.run, NOW).state is RunState.BETWEEN
        time.sleep(0.02)  # the second file must be newer by the file system's clock
        write_ended(paths, 2, SegmentStatus.FINISHED, 1108)
        assert gather_status(paths.run, NOW).state is RunState.DELIVERING, (
            "a finished segment is enough before finished.json exists"
        )
        write_json(paths.finished, {})
        assert gather_status(paths.run, NOW).state is RunState.DELIVERING
        write_json(paths.published / "publish.json", {})
        assert gather_status(paths.run, NOW).state is RunState.FINISHED
    finally:
        lock.release()


def test_a_finished_run_that_trains_again_is_reported_as_training(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    write_json(paths.finished, {})  # a file of the previous training, which stays until the new one ends
    write_metrics(paths, CONFIG, 10)
    write_json(paths.train / "lease", {"pid": os.getpid(), "host": socket.gethostname(), "job": None})
    lock = RunLock.acquire(paths.run)
    try:
        assert gather_status(paths.run, NOW).state is RunState.TRAINING
        (paths.train / "lease").unlink()
        write_ended(paths, 1, SegmentStatus.TIME_LIMIT, 10)
        assert gather_status(paths.run, NOW).state is RunState.BETWEEN
    finally:
        lock.release()


def test_status_shows_the_newest_run_and_names_the_others(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        make_run(tmp_path / "runs", CONFIG.model_copy(update={"name": name}))
    (tmp_path / "runs" / "no-run").mkdir()
    for name, mark in (("one", 1000), ("three", 2000), ("two", 3000)):
        os.utime(tmp_path / "runs" / name / "config/parts.json", (mark, mark))
    assert [run.name for run in find_runs(tmp_path / "runs")] == ["two", "three", "one"]
    done = status(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "other runs\tthree, one (show one with --run runs/three)" in done.stdout
    facts = json.loads(status("--json", cwd=tmp_path).stdout)
    assert (facts["run"], facts["others"]) == ("runs/two", ["runs/three", "runs/one"])
    assert facts["state"] == "stopped"
    assert json.loads(status("--json", "--run", "runs/one", cwd=tmp_path).stdout)["run"] == "runs/one"


def test_a_run_without_its_configuration_is_refused(tmp_path: Path) -> None:
    paths = make_run(tmp_path, CONFIG)
    (paths.config / "train.json").unlink()
    with pytest.raises(InputError, match=r"train\.json"):
        gather_status(paths.run, NOW)
