r"""Losses of the sample run, step by step, as they were when they were last looked at: a change that moves them shows.

    python tests/support/golden_losses.py runs/sample/train/logs/metrics.jsonl \
        > tests/integration/workflow/golden/sample.json

bf16 products are summed in another order by each kind of processor, and a training makes such roundings grow: measured
between AVX-512 with bf16 and AVX2, 3e-5 after 10 steps, 4e-3 after 50. So every step is compared where the processor
is of the recorded kind, and the first ones anywhere. How many that were is said.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from recorded_losses import recorded_losses

RELATIVE = 1e-4
FIRST_STEPS = 10
"""Compared on any processor."""
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""What decides which kernels compute a bf16 product."""


@dataclass(frozen=True)
class Comparison:
    """What became of comparing a training with the recorded one."""

    compared: int
    """Steps that were held against the recorded ones."""
    steps: int
    """That were recorded."""
    why: str
    """That many were compared."""
    moved: list[str]
    """What is not as recorded; none: all that was compared is."""

    def __str__(self) -> str:
        return f"golden losses: {self.compared} of {self.steps} steps compared, {self.why}"


def processor() -> list[str]:
    """This machine's kind of processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [flag for flag in _FLAGS if flag in flags]


def losses(metrics: Path) -> list[float]:
    """Loss of each iteration, from the first."""
    found = recorded_losses(metrics)
    assert list(found) == list(range(1, len(found) + 1))
    return [loss for loss, _ in found.values()]


def compare(golden: Path, metrics: Path) -> Comparison:
    """Hold the losses of a training against the recorded ones."""
    recorded = json.loads(golden.read_text())
    before, now, here = recorded["losses"], losses(metrics), processor()
    if len(now) != len(before):
        return Comparison(0, len(before), "other steps were made", [f"{len(now)} steps, {len(before)} were recorded"])
    kinds = f"this processor has {_said(here)}, the recorded one {_said(recorded['processor'])}"
    compared = len(before) if here == recorded["processor"] else FIRST_STEPS
    moved = [
        f"step {step}: {new}, was {old}"
        for step, (new, old) in enumerate(zip(now[:compared], before[:compared], strict=True), start=1)
        if abs(new - old) > RELATIVE * abs(old)
    ]
    return Comparison(compared, len(before), kinds, moved)


def _said(flags: list[str]) -> str:
    return "+".join(flags) or "none of the kinds"


if __name__ == "__main__":
    print(json.dumps({"processor": processor(), "losses": losses(Path(sys.argv[1]))}, indent=1))
