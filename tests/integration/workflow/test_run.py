"""Test `bloomery run` and `bloomery stop`: cron may call `run` at any time, and a stopped run stays stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import wait_for
from workflow_support import ROOT, TINY

pytestmark = pytest.mark.workflow


class Cron:
    """Calls `bloomery run` in the repository, with all files of the run in a folder of the test."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder, self.target = folder, target
        self.config = folder / "run.yaml"
        self.run_folder = folder / "runs/tiny"
        self.write(TINY)

    def write(self, config: dict[str, Any]) -> None:
        self.config.write_text(yaml.safe_dump({**config, "root": str(self.folder / "runs")}, sort_keys=False))

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bloomery.cli", "run", str(self.config), "--target", self.target, *options]
        return subprocess.Popen(
            [*command, "--profile", str(ROOT / "workflow/profiles/local"), "--directory", str(self.folder)],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HF_TOKEN": ""},
        )

    def run(self, *options: str, expect: int = 0) -> str:
        process = self.start(*options)
        talk, _ = process.communicate(timeout=1200)
        assert process.returncode == expect, talk
        return talk

    def state(self) -> str:
        path = self.run_folder / "monitoring/workflow.json"
        return str(json.loads(path.read_text())["state"]) if path.exists() else ""

    def workflow(self) -> int:
        """Return the id of the workflow's process."""
        # The workflow clears the file when it takes the lock, and then writes it.
        wait_for(lambda: bool((self.run_folder / ".lock").read_text()), 60)
        return int(json.loads((self.run_folder / ".lock").read_text())["pid"])


def test_cron_brings_back_a_killed_workflow_but_not_a_stopped_or_finished_one(tmp_path: Path) -> None:
    cron = Cron(tmp_path, "corpus")
    process = cron.start()
    wait_for(lambda: cron.state() == "running", 600, process)
    assert "a workflow works on this run (process" in cron.run()
    killed = cron.workflow()
    os.kill(killed, signal.SIGKILL)
    process.communicate()
    # Cron brings back the killed workflow. Then a person stops it.
    process = cron.start()
    wait_for(lambda: cron.state() == "running" and cron.workflow() != killed, 600, process)
    stop = [sys.executable, "-m", "bloomery.cli", "stop", str(cron.run_folder)]
    done = subprocess.run(stop, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "was asked to end its jobs" in done.stderr
    talk, _ = process.communicate(timeout=600)
    assert "starting the workflow again, because it was killed on" in talk
    assert cron.state() == "stopped"
    assert "a person stopped this run" in cron.run(expect=75)
    cron.run("--resume")
    assert cron.state() == "finished"
    assert "the workflow finished at" in cron.run()
    # This key changes no data, so the workflow has nothing to do.
    cron.write(TINY | {"training": {**TINY["training"], "train_samples": 24}})
    assert "the configuration or the target has changed" in cron.run()


def test_a_workflow_that_fails_repeatedly_waits_for_a_person(tmp_path: Path) -> None:
    cron = Cron(tmp_path, "corpus")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{not json}\n" * 200)
    cron.write(TINY | {"sources": [{"name": "bad", "kind": "jsonl", "paths": [str(bad)], "language": "en"}]})
    for _ in range(3):
        cron.run(expect=1)
        assert cron.state() == "failed"
    assert "failed 3 times in a row without progress (to start it anyway, add --resume)" in cron.run(expect=1)
