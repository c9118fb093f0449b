"""Test that a segment's processes are ended although they ignore SIGTERM, as ranks do that wait for a lost node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from waiting import wait_for

from training.processes.end_processes import end_processes

_RANK = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
_TORCHRUN = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {_RANK!r}, sys.argv[1]])"


def test_ranks_that_ignore_sigterm_are_killed_with_their_parent(tmp_path: Path) -> None:
    mark = tmp_path / "rank"
    process = subprocess.Popen([sys.executable, "-S", "-c", _TORCHRUN, str(mark)], start_new_session=True)
    wait_for(lambda: mark.exists() and mark.read_text().endswith("\n"), process=process)
    rank = int(mark.read_text())
    end_processes(process)
    assert process.returncode == -9
    assert not psutil.pid_exists(rank) or psutil.Process(rank).status() == psutil.STATUS_ZOMBIE


def test_processes_that_have_ended_are_left_alone() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(3)"])
    process.wait()
    end_processes(process)
    assert process.returncode == 3
