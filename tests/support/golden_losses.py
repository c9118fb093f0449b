"""Losses of the sample run, step by step, as they were when they were last looked at: a change that moves them shows.

    python tests/support/golden_losses.py runs/sample/train/logs/metrics.jsonl > tests/workflow/golden/sample.json

bf16 products are summed in another order by each kind of processor, and a training makes such roundings grow: measured
between AVX-512 with bf16 and AVX2, 3e-5 after 10 steps, 4e-3 after 50. So every step is compared where the processor
is of the recorded kind, and the first ones anywhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

RELATIVE = 1e-4
FIRST_STEPS = 10
"""Compared on any processor."""
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""What decides which kernels compute a bf16 product."""


def processor() -> list[str]:
    """This machine's kind of processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [flag for flag in _FLAGS if flag in flags]


def losses(metrics: Path) -> list[float]:
    """Loss of each iteration, from the first."""
    found = {record["iteration"]: record["loss"] for record in map(json.loads, metrics.open()) if "loss" in record}
    assert list(found) == list(range(1, len(found) + 1))
    return list(found.values())


def moved(golden: Path, metrics: Path) -> list[str]:
    """Steps whose loss is not the recorded one; none: all are."""
    recorded = json.loads(golden.read_text())
    before, now = recorded["losses"], losses(metrics)
    if len(now) != len(before):
        return [f"{len(now)} steps, {len(before)} were recorded"]
    compared = len(before) if processor() == recorded["processor"] else FIRST_STEPS
    return [
        f"step {step}: {new}, was {old}"
        for step, (new, old) in enumerate(zip(now[:compared], before[:compared], strict=True), start=1)
        if abs(new - old) > RELATIVE * abs(old)
    ]


if __name__ == "__main__":
    print(json.dumps({"processor": processor(), "losses": losses(Path(sys.argv[1]))}, indent=1))
