"""Check the results of every attention back end on one device against plain fp32, and measure the speed.

        python bench/gpu/attention.py              # prints one JSON; exit code 1 if a result is wrong

Outputs and gradients in bf16 on random inputs are compared with `eager` in fp32. The limit is a multiple of the error
of `eager` in bf16. A back end that cannot run here is reported with the reason. TFLOP/s count only the causal half of
the matrix products. Both passes together count as 3.5 forward passes, because the backward pass recomputes the scores.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

if TYPE_CHECKING:
    import torch

WITHIN = 2.0
"""Greatest accepted error, as a multiple of the error of `eager` in bf16."""


def _errors(made: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[float]:
    """Return the relative L2 errors of output and gradients."""
    return [float((one.float() - other).norm() / other.norm()) for one, other in zip(made, wanted, strict=True)]


def _run(attend: Any, inputs: list[torch.Tensor], weight: torch.Tensor) -> list[torch.Tensor]:
    """Return the output and the gradients of query, key and value."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    mixed = attend(*leaves)
    mixed.backward(weight.to(mixed.dtype))
    return [mixed.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def measure(batch: int, heads: int, length: int, size: int, positions: str) -> list[dict[str, Any]]:
    """Measure every back end on one shape, starting with `eager`."""
    import torch
    from _timing import median_seconds

    from training.model.attention.back_ends import BACK_ENDS
    from training.model.attention.heads import Heads

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(1)
    whole = [torch.randn(batch, length, heads, size, generator=generator).to(device) for _ in range(4)]
    given = Heads(total=heads, first=0, local=heads, scale=size**-0.5, alibi=positions == "alibi")
    wanted = _run(BACK_ENDS["eager"](given), whole[:3], whole[3])
    inputs = [each.bfloat16() for each in whole[:3]]
    flops = 3.5 * 4 * batch * heads * length * length * size / 2
    found: list[dict[str, Any]] = []
    for name, build in BACK_ENDS.items():
        try:
            attend = build(given)
            errors = _errors(_run(attend, inputs, whole[3]), wanted)
            seconds = median_seconds(partial(_run, attend, inputs, whole[3]), cuda=inputs[0].is_cuda)
        except (ImportError, RuntimeError, NotImplementedError, ValueError) as error:
            found.append({"back_end": name, "positions": positions, "cannot": str(error).splitlines()[0]})
            continue
        limit = WITHIN * max(found[0]["errors"]) if found else None
        found.append(
            {
                "back_end": name,
                "positions": positions,
                "errors": errors,
                "within": limit is None or max(errors) <= limit,
                "seconds": seconds,
                "tflops": flops / seconds / 1e12,
            }
        )
    return found


def main() -> int:
    """Measure attention with ALiBi and without, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--head-size", type=int, default=128)
    options = parser.parse_args()
    shape = (options.batch, options.heads, options.length, options.head_size)
    found = [each for positions in ("alibi", "none") for each in measure(*shape, positions)]
    lines = []
    for each in found:
        name = f"attention {each['back_end']}, positions {each['positions']}"
        if "cannot" in each:
            lines.append(f"{name:40} {each['cannot'][:80]}")
        else:
            said = "equal" if each["within"] else "WRONG RESULT"
            lines.append(
                f"{name:40} {1e3 * each['seconds']:8.2f} ms {each['tflops']:7.1f} TFLOP/s, {said} "
                f"(greatest error {max(each['errors']):.1e})"
            )
    print(json.dumps({"shape": shape, "back_ends": found, "lines": lines}))
    return int(any(not each.get("within", True) for each in found))


if __name__ == "__main__":
    sys.exit(main())
