"""Test a disk that becomes full: a clear message, no incomplete checkpoint, and a resume when there is space again."""

from __future__ import annotations

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


def test_a_full_disk_is_named_and_the_training_resumes_when_there_is_space(small_disk):
    run = small_disk / "run"
    launcher = Launcher(run, make_run(run, stage()))
    ballast = run / "ballast"
    ballast.write_bytes(b"x" * 3_900_000)
    process = launcher.start()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 1, talk
    assert "the disk is full: a checkpoint needs" in talk.splitlines()[-1]
    checkpoints = run / "train" / "checkpoints"
    assert not (checkpoints / ".saving").exists()
    assert all((folder / "manifest.json").is_file() for folder in checkpoints.glob("step*"))
    ballast.unlink()
    assert launcher.segment()["status"] == "finished"
