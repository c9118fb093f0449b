"""Run segments of training in processes of their own, as a rule does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from recorded_losses import recorded_losses


class Launcher:
    """`bloomery train segment` on a run."""

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
        """Iteration -> (loss, gradient norm)."""
        return recorded_losses(self.run / "train/logs/metrics.jsonl")

    def wait_for_iteration(self, iteration: int, process: subprocess.Popen[str]) -> None:
        metrics = self.run / "train" / "logs" / "metrics.jsonl"
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            if metrics.exists() and metrics.read_text().count('"loss"') >= iteration:
                return
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        raise AssertionError(f"iteration {iteration} was not reached")
