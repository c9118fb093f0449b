"""Test the SLURM job that watches a run and submits its own successor, on a real scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fabricated_run import make_run, write_ended
from fault_scenario import configuration
from waiting import wait_for

from bloomery.base.atomic import write_json
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def run(cluster, tmp_path: Path) -> Iterator[RunPaths]:
    yield make_run(tmp_path, configuration(every_seconds=0.5))
    cluster.run("scancel", "--quiet", f"--user={os.environ.get('USER', 'root')}")


def watch(cluster, run: RunPaths, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "watch", "--run", str(run.run), *options]
    return subprocess.run(
        command,
        env={**cluster.environment, "HF_TOKEN": "hf_secret", "BLOOMERY_ALERT_URLS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


def jobs(cluster, state: str) -> list[str]:
    # Other tests may leave jobs of workflows in the queue.
    lines = cluster.squeue("--noheader", f"--states={state}", "--format=%i %k").splitlines()
    return [line.split()[0] for line in lines if " rule_" not in line]


def pulses(run: RunPaths) -> list[str]:
    path = run.run / "logs" / "pulse.log"
    return path.read_text().splitlines() if path.exists() else []


def test_a_job_watches_until_the_run_has_finished_and_survives_a_killed_job(cluster, run: RunPaths) -> None:
    done = watch(cluster, run, "--submit", "--job-minutes", "60", "--option=--partition=main", "--option=--mem=200M")
    assert done.returncode == 0, done.stderr
    first = done.stdout.strip()
    assert "cannot push logs to a Hub" in done.stderr
    # The job looks repeatedly, and its successor waits until it ends.
    wait_for(lambda: len(pulses(run)) >= 2 and jobs(cluster, "PENDING"), 120, every=0.2)
    assert "PULSE: big: " in pulses(run)[0]
    (second,) = jobs(cluster, "PENDING")
    assert jobs(cluster, "RUNNING") == [first]
    assert "watches this run already" in watch(cluster, run, "--submit").stderr
    # The job of the watch must not have the token of the Hub.
    environment = _environment_of(run)
    assert "BLOOMERY_ALERT_URLS" in environment
    assert "HF_TOKEN" not in environment
    # If the job is killed, the successor continues, and submits its own successor.
    cluster.run("scancel", "--signal=KILL", "--full", first)
    cluster.run("scancel", first)
    wait_for(lambda: jobs(cluster, "RUNNING") == [second], 120, every=0.2)
    seen = len(pulses(run))
    wait_for(lambda: len(pulses(run)) > seen and len(jobs(cluster, "PENDING")) == 1, 120, every=0.2)
    # When the run has finished, the chain ends.
    write_ended(run, 1, SegmentStatus.FINISHED, 100)
    write_json(run.finished, {})
    wait_for(lambda: not jobs(cluster, "RUNNING,PENDING"), 120, every=0.2)
    assert "the watch ends" in (run.run / "logs" / "watch-job.log").read_text()


def _environment_of(run: RunPaths) -> dict[str, str]:
    """Return the environment of the process that watches the run inside a job."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "--in-job" in command and str(run.run.resolve()) in command:
            return process.environ()
    raise AssertionError("no process watches the run")


def test_a_file_ends_the_watch(cluster, run: RunPaths) -> None:
    assert watch(cluster, run, "--submit", "--option=--mem=200M").returncode == 0
    wait_for(lambda: pulses(run) and jobs(cluster, "PENDING"), 120, every=0.2)
    run.alerts.mkdir(exist_ok=True)
    (run.alerts / "stop-watching").touch()
    wait_for(lambda: not jobs(cluster, "RUNNING,PENDING"), 120, every=0.2)
