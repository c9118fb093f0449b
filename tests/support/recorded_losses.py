"""What a training's metrics.jsonl says of its iterations."""

from __future__ import annotations

import json
from pathlib import Path


def recorded_losses(metrics: Path) -> dict[int, tuple[float, float]]:
    """Iteration -> (loss, gradient norm); one that was done again must have the same in each record."""
    found: dict[int, tuple[float, float]] = {}
    for line in metrics.read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            iteration, own = record["iteration"], (record["loss"], record["grad_norm"])
            before = found.setdefault(iteration, own)
            assert own == before, f"iteration {iteration} was done again and had {own}, before {before}"
    return found
