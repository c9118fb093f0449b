r"""Compare the losses of the sample run with recorded ones, so that a change that affects them is noticed.

This command records the losses:

    python tests/support/golden_losses.py runs/sample/train/logs/metrics.jsonl \
        > tests/integration/workflow/golden/sample.json

Each kind of processor sums bf16 products in another order, and training increases such rounding differences. Between
AVX-512 with bf16 and AVX2, they were 3e-5 after 10 steps and 4e-3 after 50. So all steps are compared if the processor
is of the recorded kind, and only the first steps on other processors. The result states the number of compared steps.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from recorded_losses import recorded_losses

RELATIVE = 1e-4
FIRST_STEPS = 10
"""Number of steps that are compared on any processor."""
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Processor flags that decide which kernels compute a bf16 product."""


@dataclass(frozen=True)
class Comparison:
    """Result of comparing a training with the recorded one."""

    compared: int
    """Number of compared steps."""
    steps: int
    """Number of recorded steps."""
    why: str
    """Reason why this number of steps was compared."""
    moved: list[str]
    """Differences from the recorded losses. Empty if all compared losses are equal."""

    def __str__(self) -> str:
        return f"golden losses: {self.compared} of {self.steps} steps compared, {self.why}"


def processor() -> list[str]:
    """Return the flags of this machine's processor that are in `_FLAGS`."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [flag for flag in _FLAGS if flag in flags]


def losses(metrics: Path) -> list[float]:
    """Return the loss of each iteration, from the first one on."""
    found = recorded_losses(metrics)
    assert list(found) == list(range(1, len(found) + 1))
    return [loss for loss, _ in found.values()]


def compare(golden: Path, metrics: Path) -> Comparison:
    """Compare the losses of a training with the recorded ones."""
    recorded = json.loads(golden.read_text())
    before, now, here = recorded["losses"], losses(metrics), processor()
    if len(now) != len(before):
        return Comparison(
            0, len(before), "the number of steps differs", [f"{len(now)} steps, {len(before)} were recorded"]
        )
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
