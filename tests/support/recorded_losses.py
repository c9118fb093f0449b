"""Read the losses of a training from its metrics.jsonl."""

from __future__ import annotations

import json
from pathlib import Path


def recorded_losses(metrics: Path) -> dict[int, tuple[float, float]]:
    """Return (loss, gradient norm) by iteration. All records of a repeated iteration must have the same values."""
    found: dict[int, tuple[float, float]] = {}
    for line in metrics.read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            iteration, own = record["iteration"], (record["loss"], record["grad_norm"])
            before = found.setdefault(iteration, own)
            assert own == before, f"iteration {iteration} was repeated and had {own}, but first {before}"
    return found
