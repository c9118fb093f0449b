"""Test on two nodes of a cluster that a stopped rank ends the segment, and that no process of the segment remains."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest
from fabricated_training import make_run, stage
from slurm_cluster import SlurmCluster
from waiting import wait_for

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, SegmentStatus, read_segment

pytestmark = pytest.mark.cluster

HEARTBEAT = {"iterations": 5.0, "seconds": 4.0, "save_seconds": 20.0, "first_minutes": 10.0}
WORDS = {"account": "lab", "partition": "main", "nodes": "2", "ntasks-per-node": "1", "cpus-per-task": "4"}


def _ranks(run: Path) -> dict[int, psutil.Process]:
    """Return the processes that train the run, by rank."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if str(run) in line and "training.loop.main" in line and "training.processes.torchrun" not in line:
            try:
                found[int(process.environ()["RANK"])] = process
            except (psutil.Error, KeyError):
                continue
    return found


def test_a_stopped_rank_of_another_node_ends_the_segment_and_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    # The training is long enough to be stopped, and is not finished by this test.
    config = make_run(tmp_path, stage(tensor=2, pipeline=2, samples=16_000, heartbeat=HEARTBEAT))
    paths = RunPaths(tmp_path)
    output = paths.segments / "1.json"
    command = [
        sys.executable,
        "-m",
        "bloomery.cli",
        "train",
        "segment",
        "--config",
        str(config),
        "--run",
        str(tmp_path),
    ]
    command += ["--number", "1", "--output", str(output), "--nodes", "2", "--ranks-per-node", "2"]
    options = [f"--{name}={value}" for name, value in WORDS.items()]
    job = cluster.run("sbatch", "--parsable", *options, f"--output={tmp_path}/job.log", "--wrap", shlex.join(command))
    assert job.returncode == 0, job.stderr
    metrics = paths.logs / "metrics.jsonl"
    try:
        wait_for(lambda: metrics.exists() and metrics.read_text().count('"loss"') >= 5, 600)
        _ranks(tmp_path)[3].send_signal(signal.SIGSTOP)
        wait_for(lambda: not cluster.squeue("--noheader", f"--jobs={job.stdout.strip()}"), 300, every=0.2)
    finally:
        cluster.run("scancel", job.stdout.strip())
    segment = read_segment(output)
    assert (segment.status, segment.fault) == (SegmentStatus.CRASHED, Fault.HANG), segment.message
    assert segment.first_failure is not None
    assert (segment.first_failure.rank, segment.first_failure.host) == (3, os.uname().nodename)
    assert "rank 3: process" in (paths.hangs / "1-1/no-stacks.txt").read_text()
    for rank in range(3):
        assert "train_step.py" in (paths.hangs / f"1-1/{rank}.txt").read_text()
    wait_for(lambda: not _ranks(tmp_path), 30)
