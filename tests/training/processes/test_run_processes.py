"""Test the processes of a segment: where their output is printed, and how they are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

from bloomery.contracts.paths import RunPaths
from training.processes import run_processes as module
from training.processes.run_processes import BY_SIGNAL, run_processes


def test_texts_of_incidents_are_fetched_during_and_after_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Texts:
        def __init__(self, paths: RunPaths) -> None:
            assert paths.run == tmp_path

        def look(self) -> bool:
            seen.append("look")
            return False

        def finish(self, seconds: float) -> None:
            seen.append(f"finish in {seconds:.0f} s")

    monkeypatch.setattr(module, "IncidentTexts", Texts)
    monkeypatch.setattr(module, "_LOOK_EVERY_SECONDS", 0.05)
    command = [sys.executable, "-c", "import time; time.sleep(0.4)"]
    assert run_processes(command, os.environ, RunPaths(tmp_path)).code == 0
    assert seen[0] == "look"
    assert seen[-1] == "finish in 60 s"


def test_what_the_processes_print_is_on_stderr_and_their_exit_code_is_returned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)"]
    assert run_processes(command, os.environ, RunPaths(tmp_path)).code == 3
    shown = capfd.readouterr()
    assert shown.out == ""
    assert sorted(shown.err.splitlines()) == ["one", "two"]


def test_processes_that_cannot_continue_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY_SECONDS", 0.05)
    begun = tmp_path / "begun"
    command = [sys.executable, "-S", "-c", f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)"]

    def failure() -> str | None:
        return "another node is lost" if begun.exists() else None

    assert run_processes(command, os.environ, RunPaths(tmp_path), failure=failure).code == -signal.SIGKILL


_LAUNCHER = """
import os, sys
from pathlib import Path
from bloomery.contracts.paths import RunPaths
from training.processes.run_processes import run_processes
program = "import os, time; print('begun', flush=True)\\nwhile not os.path.exists('stop'): time.sleep(0.05)"
sys.exit(run_processes([sys.executable, "-c", program], os.environ, RunPaths(Path("."))).code)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_becomes_the_stop_file(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "train/control").mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    process.send_signal(number)
    stop = tmp_path / "train/control/stop"
    wait_for(stop.exists, 60, process)
    assert stop.read_text() == BY_SIGNAL
    (tmp_path / "stop").touch()
    assert process.wait(60) == 0
    assert process.stderr.read() == "asked to stop: a checkpoint is saved after the current iteration\n"
