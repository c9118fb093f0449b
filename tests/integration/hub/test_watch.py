"""Test `watch`, which syncs during training until the end, even if the Hub fails or the workflow is killed."""

from __future__ import annotations

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


def test_a_watch_without_a_hub_raises_alerts_only(hub, run, start):
    process = start("watch", "--run", str(run.paths.run), HF_ENDPOINT=None)
    pulse = run.paths.run / "logs" / "pulse.log"
    wait_for(lambda: pulse.exists() and pulse.read_text().endswith("\n"), 60, process)
    process.send_signal(signal.SIGTERM)
    talk = process.communicate(timeout=30)[1]
    assert "the logs are not pushed to a Hub, because HF_ENDPOINT is not set" in talk
    assert process.returncode == 0
    assert not hub.has(LOGS)


def test_a_watch_without_a_run_fails_immediately(run, start):
    (run.paths.config / "publish.json").unlink()
    process = start("watch", "--run", str(run.paths.run))
    assert "no such file" in process.communicate(timeout=30)[1]
    assert process.returncode == 1


WORKFLOW = """
import sys, time
from pathlib import Path
from bloomery.orchestration.watcher import Watcher
watch = Watcher.start(Path(sys.argv[1]))
print(watch.pid, flush=True)
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


@pytest.mark.parametrize("hub_configured", [True, False])
def test_a_killed_watch_is_started_again_with_the_same_token(hub, run, hub_configured):
    environment = dict(run.environment)
    if not hub_configured:
        del environment["HF_ENDPOINT"]
    # Like a workflow on a cluster, this one removes the token from its own environment after the start.
    code = WORKFLOW.replace("sys.stdin", "import os; os.environ.pop('HF_TOKEN')\nsys.stdin")
    command = [sys.executable, "-c", code, str(run.paths.run)]
    workflow = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pulse = run.paths.run / "logs" / "pulse.log"
    try:
        pid = int(workflow.stdout.readline())
        wait_for(lambda: pulse.exists() and (synced(run) or not hub_configured), 60, workflow)
        for _ in range(2):
            lines = pulse.read_text()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid: [each for each in children(workflow.pid) if each != pid], 60, workflow)
            # The new watcher looks at the run.
            wait_for(lambda lines=lines: len(pulse.read_text()) > len(lines), 60, workflow)
            (pid,) = children(workflow.pid)
        run.append(4, 9)
        workflow.stdin.write("\n")
        workflow.stdin.flush()
        talk = workflow.communicate(timeout=60)[1]
        assert talk.count("the watcher of the run ended unexpectedly (exit code -9)") == 2
        assert "it starts again in 1 s" in talk
        assert "it starts again in 2 s" in talk
        assert arrived(hub, run) if hub_configured else not hub.has(LOGS)
        assert TOKEN not in talk + (run.paths.run / "logs" / "watch.log").read_text()
    finally:
        workflow.kill()
        workflow.communicate()


def children(pid):
    """Return the living children of a process."""
    return [each.pid for each in psutil.Process(pid).children() if each.status() != psutil.STATUS_ZOMBIE]


def test_a_watcher_that_always_fails_is_started_rarely_and_reported(hub, run):
    (run.paths.config / "publish.json").unlink()
    code = WORKFLOW.replace(
        "sys.stdin.readline()",
        "import time\nlog = Path(sys.argv[1]) / 'logs/watch.log'\n"
        "while not log.exists() or log.read_text().count('no such file') < 2: time.sleep(0.05)\n"
        "watch._process.wait()",
    )
    command = [sys.executable, "-c", code, str(run.paths.run)]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True, timeout=60)
    assert "the watcher of the run ended unexpectedly (exit code 1); it starts again in 1 s" in done.stderr
    assert "the run is not watched, because the watcher failed" in done.stderr
