"""Test `watch`, which syncs during training until the end, even if the Hub fails or the workflow is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from hub_support import TOKEN
from waiting import wait_for

pytestmark = pytest.mark.slow

LOGS = "tester/tiny-bloom-logs"


def synced(run):
    path = run.paths.monitoring / "sync.json"
    return path.exists() and run.state["synced"] is not None


def arrived(hub, run):
    return all(hub.file(LOGS, path) == data for path, data in run.local_logs().items())


def test_logs_are_pushed_while_the_training_runs_and_the_watch_ends_after_it(hub, run, start):
    process = start("watch", "--run", str(run.paths.run), "--every", "0.02")
    wait_for(lambda: synced(run))
    first = run.state["commit"]
    run.append(4, 9)
    wait_for(lambda: run.state["commit"] != first)
    assert process.poll() is None
    run.finish()
    talk = process.communicate(timeout=30)[1]
    assert process.returncode == 0, talk
    assert "the training has ended" in talk
    assert arrived(hub, run)
    assert TOKEN not in talk


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_watch_that_is_stopped_syncs_a_last_time(hub, run, start, number):
    process = start("watch", "--run", str(run.paths.run), "--every", "60")
    wait_for(lambda: synced(run))
    run.append(4, 9)
    process.send_signal(number)
    talk = process.communicate(timeout=30)[1]
    assert process.returncode == 0, talk
    assert arrived(hub, run)


def test_a_hub_that_comes_back_gets_everything(hub, run, start):
    hub.faults({"path": "/api/", "status": 503, "times": 10_000})
    process = start("watch", "--run", str(run.paths.run), "--every", "0.01", "--retry-seconds", "0.1")
    wait_for(lambda: (run.paths.monitoring / "sync.json").exists() and run.state["failures"] >= 2)
    assert "503" in run.state["error"]
    run.append(4, 9)
    run.finish()
    hub.faults()
    talk = process.communicate(timeout=60)[1]
    assert process.returncode == 0, talk
    assert arrived(hub, run)
    assert (run.state["failures"], run.state["error"]) == (0, None)


def test_a_sync_that_hangs_is_killed_and_the_next_sync_succeeds(hub, run):
    hub.faults({"path": "/api/", "delay": 40, "times": 1})
    run.finish()
    code = (
        "import sys; from pathlib import Path\n"
        "from bloomery.contracts.paths import RunPaths; from monitoring.sync_loop import SyncLoop\n"
        "SyncLoop(RunPaths(Path(sys.argv[1])), 0.5, longest_seconds=10).run()"
    )
    command = [sys.executable, "-c", code, str(run.paths.run)]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "a sync was killed after 10 s" in done.stderr
    assert arrived(hub, run)


def test_a_watch_without_a_hub_or_without_a_run_fails_immediately(hub, run, start):
    process = start("watch", "--run", str(run.paths.run), HF_ENDPOINT=None)
    assert "HF_ENDPOINT is not set" in process.communicate(timeout=30)[1]
    assert process.returncode == 2
    (run.paths.config / "publish.json").unlink()
    process = start("watch", "--run", str(run.paths.run))
    assert "no such file" in process.communicate(timeout=30)[1]
    assert process.returncode == 1


WORKFLOW = """
import sys, time
from pathlib import Path
from bloomery.orchestration.sync_process import SyncProcess
watch = SyncProcess.start(Path(sys.argv[1]), hub=True)
print(watch._process.pid, flush=True)
sys.stdin.readline()
watch.stop()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_watch_ends_with_its_workflow_after_a_last_sync(hub, run, killed):
    command = [sys.executable, "-c", WORKFLOW, str(run.paths.run)]
    workflow = subprocess.Popen(command, env=run.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        watch = psutil.Process(int(workflow.stdout.readline()))
        wait_for(lambda: synced(run))
        run.append(4, 9)
        if killed:
            os.kill(workflow.pid, signal.SIGKILL)
        else:
            workflow.stdin.write("\n")
            workflow.stdin.flush()
        workflow.wait(timeout=30)
        wait_for(lambda: not watch.is_running() or watch.status() == psutil.STATUS_ZOMBIE)
        assert arrived(hub, run)
        talk = (run.paths.run / "logs" / "watch.log").read_text()
        assert "asked to stop: the logs are pushed one last time" in talk
        assert TOKEN not in talk
    finally:
        workflow.kill()
        workflow.communicate()


def test_a_workflow_reports_at_its_end_that_its_watch_died(hub, run):
    (run.paths.config / "publish.json").unlink()
    code = WORKFLOW.replace("sys.stdin.readline()", "watch._process.wait()")
    command = [sys.executable, "-c", code, str(run.paths.run)]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True, timeout=30)
    assert "the logs were not pushed to the Hub while the workflow ran" in done.stderr
    assert "no such file" in (run.paths.run / "logs" / "watch.log").read_text()


def test_a_workflow_without_a_hub_starts_no_watch(run):
    code = (
        "import sys; from pathlib import Path; from bloomery.orchestration.sync_process import SyncProcess\n"
        "print(SyncProcess.start(Path(sys.argv[1]), hub=False))"
    )
    command = [sys.executable, "-c", code, str(run.paths.run)]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "None"
    assert not (run.paths.run / "logs").exists()
    assert json.loads((run.paths.config / "publish.json").read_text())["publish"]["hub"] is True
