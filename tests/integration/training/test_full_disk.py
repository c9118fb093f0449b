"""Test a full disk: a clear message, no incomplete checkpoint, and a training without a further command."""

from __future__ import annotations

import contextlib
import json
import subprocess

import pytest
from fabricated_training import make_run, stage
from training_launcher import Launcher

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 6 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_the_training_resumes_when_space_is_freed(small_disk):
    run = small_disk / "run"
    launcher = Launcher(run, make_run(run, stage()))
    ballast = run / "ballast"
    # The first checkpoint fits, and a later one does not.
    ballast.write_bytes(b"x" * 3_900_000)
    talk = _freed_after("the disk is full: a checkpoint needs", launcher.start(), ballast)
    crashed = json.loads((run / "train/segments/1.json").read_text())
    assert (crashed["status"], crashed["fault"]) == ("crashed", "disk"), talk
    checkpoints = run / "train" / "checkpoints"
    assert not (checkpoints / ".saving").exists()
    assert all((folder / "manifest.json").is_file() for folder in checkpoints.glob("step*"))
    # A launcher that finds a full disk waits for space and then trains.
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as handle:
        while True:
            handle.write(b"x" * 4096)
    _freed_after("are needed; waiting until space is freed", launcher.start(2), ballast)
    assert json.loads((run / "train/segments/2.json").read_text())["status"] == "finished"


def _freed_after(words, process, ballast):
    """Remove the ballast when the launcher prints `words`. Return what it prints until its successful end."""
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            ballast.unlink(missing_ok=True)
    assert process.wait(300) == 0, "".join(said)
    assert words in "".join(said)
    return "".join(said)
