"""Test that a run has one workflow at a time, and that the kernel releases the lock of a killed holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bloomery.base.errors import TryAgainError
from bloomery.orchestration.run_lock import LOCK_NAME, RunLock, holder

HOLDER = """
    import subprocess, sys, time
    from pathlib import Path
    from bloomery.orchestration.run_lock import RunLock
    lock = RunLock.acquire(Path(sys.argv[1]))
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_with_the_process_id_of_the_holder(tmp_path: Path) -> None:
    code = textwrap.dedent(HOLDER)
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        with pytest.raises(TryAgainError, match=f"process {process.pid} on") as caught:
            RunLock.acquire(tmp_path)
        assert caught.value.exit_code == 75
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A child process of the holder is still alive, and the lock is free nevertheless.
        os.kill(child, 0)
        RunLock.acquire(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_released_lock_can_be_acquired_again_and_names_its_holder(tmp_path: Path) -> None:
    RunLock.acquire(tmp_path / "run").release()
    lock = RunLock.acquire(tmp_path / "run")
    last = holder(tmp_path / "run")
    assert last is not None
    assert last.pid == os.getpid()
    lock.release()


def test_a_damaged_lock_file_does_not_prevent_acquisition(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_bytes(b"\xff\x00")
    assert holder(tmp_path) is None
    lock = RunLock.acquire(tmp_path)
    assert holder(tmp_path) is not None
    lock.release()
