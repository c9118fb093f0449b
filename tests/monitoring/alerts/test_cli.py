"""Test `bloomery alerts` and `bloomery watch --once` as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fabricated_run import make_run, write_ended, write_metrics
from fault_scenario import configuration
from repository import ROOT
from webhook import running_webhook

from bloomery.base.atomic import write_json
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus
from bloomery.contracts.workflow_state import WorkflowRecord, WorkflowState, write_workflow

pytestmark = pytest.mark.slow


def bloomery(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "bloomery.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


@pytest.fixture
def idle(tmp_path: Path) -> RunPaths:
    """Return a run whose last attempt to train crashed days ago."""
    config = configuration()
    paths = make_run(tmp_path, config)
    write_metrics(paths, config, 100)
    write_ended(paths, 1, SegmentStatus.CRASHED, 100, in_chain=False, message="torchrun was killed")
    old = (paths.segments / "history" / "1-1.json").stat().st_mtime - 86_400
    os.utime(paths.segments / "history" / "1-1.json", (old, old))
    return paths


def test_an_idle_run_is_reported_listed_and_acknowledged(idle: RunPaths) -> None:
    run = ("--run", str(idle.run))
    with running_webhook() as hook:
        urls = {"BLOOMERY_ALERT_URLS": f"json://127.0.0.1:{hook.port}/x"}
        looked = bloomery("watch", *run, "--once", **urls)
        assert looked.returncode == 0, looked.stderr
        assert "PULSE: big: stopped, iteration 100 of 20,000" in looked.stdout
        assert (idle.run / "logs" / "pulse.log").read_text() == looked.stdout
        # A second look at the same run sends nothing.
        assert bloomery("watch", *run, "--once", **urls).returncode == 0
    titles = {"[critical] big: the run is neither running nor queued", "[warning] big: a segment crashed"}
    assert set(hook.titles) == titles
    assert len(hook.titles) == 2
    assert "crashed: torchrun was killed" in str(hook.bodies)
    listed = bloomery("alerts", "list", *run)
    assert "neither running nor queued" in " ".join(listed.stdout.split())
    wrong = bloomery("alerts", "ack", *run, "nonsense")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "no such alert holds now: nonsense; expected: one of the alerts that hold: crash, idle" in wrong.stderr
    done = bloomery("alerts", "ack", *run, "idle", "--by", "ann")
    assert (done.returncode, done.stdout) == (0, "acknowledged by ann: idle\n")
    value = json.loads(bloomery("alerts", "list", *run, "--json").stdout)
    assert {each["key"]: each["acknowledged"] for each in value["alerts"]} == {"crash": None, "idle": "ann"}
    assert value["failing_receivers"] == {}


def test_a_run_that_a_person_stopped_is_not_reported(idle: RunPaths) -> None:
    write_ended(idle, 1, SegmentStatus.STOPPED, 100, in_chain=False)
    assert "no alerts" in bloomery("watch", "--run", str(idle.run), "--once").stdout
    value = json.loads(bloomery("alerts", "list", "--run", str(idle.run), "--json").stdout)
    assert value["alerts"] == []


def test_a_run_whose_workflow_has_built_its_target_is_not_reported(idle: RunPaths) -> None:
    record = WorkflowRecord(
        state=WorkflowState.FINISHED, target="corpus", config_digest="x", started="2026-01-01T00:00:00Z"
    )
    write_workflow(idle, record)
    assert "no alerts" in bloomery("watch", "--run", str(idle.run), "--once").stdout


def test_a_damaged_file_of_the_run_is_reported_if_it_stays_damaged(idle: RunPaths) -> None:
    write_json(idle.config / "train.json", {"nonsense": 1})
    looked = bloomery("watch", "--run", str(idle.run), "--once")
    assert looked.returncode == 0
    assert "PULSE: big: state unknown. The state of the run cannot be read" in looked.stdout


def test_a_test_message_reports_each_receiver(idle: RunPaths) -> None:
    run = ("--run", str(idle.run))
    with running_webhook() as hook:
        done = bloomery("alerts", "test", *run, "--json", BLOOMERY_ALERT_URLS=f"json://127.0.0.1:{hook.port}/x")
        assert done.returncode == 0, done.stderr
        hook.status = 500
        failed = bloomery("alerts", "test", *run, BLOOMERY_ALERT_URLS=f"json://127.0.0.1:{hook.port}/x")
    assert {each["receiver"]: each["delivered"] for each in json.loads(done.stdout)["receivers"]} == {
        "alerts.jsonl": True,
        "BLOOMERY_ALERT_URLS[1]": True,
    }
    assert hook.titles == ["[test] big: a test message"]
    assert failed.returncode == 1
    assert "HTTP status 500" in failed.stdout


def test_without_a_run_the_verbs_fail(tmp_path: Path) -> None:
    for command in (["alerts", "list"], ["alerts", "test"], ["alerts", "ack", "x"], ["watch", "--once"], ["watch"]):
        done = bloomery(*command, "--run", str(tmp_path / "absent"))
        assert (done.returncode, done.stdout) == (1, "")
        assert "no such folder" in done.stderr


def test_options_for_a_job_need_the_option_that_submits_it(idle: RunPaths) -> None:
    for option in ("--option=--partition=small", "--job-minutes=5"):
        done = bloomery("watch", "--run", str(idle.run), "--once", option)
        assert done.returncode == 2
        assert "are for --submit" in " ".join(done.stderr.split())
