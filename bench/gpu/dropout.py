"""Check that dropout on one device drops the elements that its definition names, and measure its speed.

        python bench/gpu/dropout.py                # prints one JSON; exit code 1 if an element is wrong

The random numbers of a part of the elements are computed with numpy from their definition (`training.model.dropout`),
which is that of the kernel for CPUs. So a training on a GPU drops the same elements as one on a CPU. The time of a
forward and a backward pass is compared with that of torch's own dropout, whose masks depend on the layout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

if TYPE_CHECKING:
    import torch

RATE, SEED, ITERATION, LAYER = 0.1, 1, 2, 3
CHECKED = 1 << 20
"""Number of elements of each sample whose random numbers are computed with numpy."""


def _run(drop: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Run a forward and a backward pass."""
    drop(x.detach().requires_grad_()).backward(x)


def measure(shape: tuple[int, ...], place: int) -> dict[str, Any]:
    """Check and measure one activation [batch, ..] in bf16."""
    import torch
    from _timing import median_seconds
    from dropout_masks import factors

    from bloomery.config.training import DropoutConfig
    from training.model.dropout import DropoutNumbers, Place, drop, threshold

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    holder = DropoutNumbers(DropoutConfig(hidden=RATE), device)
    with holder.step(SEED, ITERATION, [range(shape[0])]):
        holder.next_micro_batch()
        numbers = holder.of_layer(LAYER)
    x = torch.ones(shape, dtype=torch.bfloat16, device=device)

    def ours(x: torch.Tensor) -> torch.Tensor:
        return drop(x, numbers, Place(place), threshold(RATE))

    kept = (ours(x).flatten(1) > 0).cpu()
    count = min(CHECKED, kept.size(1))
    right = [
        torch.from_numpy(factors(SEED, ITERATION, sample, LAYER, place, (count,), RATE) > 0)
        for sample in range(shape[0])
    ]
    seconds, peer = (
        median_seconds(partial(_run, each, x), cuda=x.is_cuda)
        for each in (ours, partial(torch.nn.functional.dropout, p=RATE))
    )
    share = 1 - float(kept.double().mean())
    return {
        "shape": shape,
        "right": bool(torch.equal(kept[:, :count], torch.stack(right))) and abs(share - RATE) < 0.01,
        "dropped_share": share,
        "seconds": seconds,
        "torch_seconds": peer,
        "nanoseconds_per_element": 1e9 * seconds / x.numel(),
    }


def main() -> int:
    """Check and measure an activation and attention weights, print the JSON, and return 1 if an element is wrong."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--head-size", type=int, default=128)
    options = parser.parse_args()
    batch, heads, length = options.batch, options.heads, options.length
    found = [
        {"what": "attention weights", **measure((batch, heads, length, length), 1)},
        {"what": "activation", **measure((batch, length, heads * options.head_size), 2)},
    ]
    lines = [
        f"dropout of {each['what']}: {'right' if each['right'] else 'WRONG'}, {1e3 * each['seconds']:.2f} ms "
        f"(torch's own: {1e3 * each['torch_seconds']:.2f} ms)"
        for each in found
    ]
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    print(json.dumps({"device": name, "torch": torch.__version__, "dropout": found, "lines": lines}))
    return 0 if all(each["right"] for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
