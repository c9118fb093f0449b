"""Run segments of training in their own processes, as a rule of the workflow does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from recorded_losses import recorded_losses
from waiting import wait_for


class Launcher:
    """Run `bloomery train segment` on a run."""

    def __init__(self, run: Path, config: Path) -> None:
        self.run = run
        self.config = config

    def start(self, number: int = 1) -> subprocess.Popen[str]:
        output = self.run / "train" / "segments" / f"{number}.json"
        command = [sys.executable, "-m", "bloomery.cli", "train", "segment", "--config", str(self.config)]
        command += ["--run", str(self.run), "--number", str(number), "--output", str(output)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)

    def segment(self, number: int = 1) -> dict[str, object]:
        """Run a segment to its end and return its file."""
        process = self.start(number)
        talk, _ = process.communicate(timeout=300)
        assert process.returncode == 0, talk
        return json.loads((self.run / "train" / "segments" / f"{number}.json").read_text())

    def losses(self) -> dict[int, tuple[float, float]]:
        """Return (loss, gradient norm) by iteration."""
        return recorded_losses(self.run / "train/logs/metrics.jsonl")

    def wait_for_iteration(self, iteration: int, process: subprocess.Popen[str]) -> None:
        metrics = self.run / "train" / "logs" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.read_text().count('"loss"') >= iteration, 600, process)
