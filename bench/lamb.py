"""Claim: a step of LAMB takes at most 1.6 times as long as a step of torch's fused AdamW.

    python bench/lamb.py > bench/results/lamb.json    # takes about 2 minutes and 4 GB of memory

Both update 100 M parameters in the shapes of a GPT in fp32, in turn, on all cores. LAMB reads and writes 10 numbers for
each parameter in its two passes, and Adam 7, so memory traffic alone gives a ratio of 1.43. The peer is LAMB as a loop
of torch operations over the parameters, as optimizer libraries write it. The median of the paired ratios must not
exceed the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

if TYPE_CHECKING:
    import torch

    from bloomery.config.training import OptimizerConfig
    from training.optim.segment_map import SegmentMap

LIMIT = 1.6
MODEL = {"layers": 12, "hidden_size": 768, "heads": 12, "sequence_length": 512}
ROWS = 19_456
"""Embedding rows, with which the network has 100 M parameters."""


def _map() -> SegmentMap:
    from bloomery.config.stages import TrainStage
    from training.optim.segment_map import segment_map
    from training.parallel.mesh import build_mesh

    training = {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 1.0}}
    stage = TrainStage.model_validate({"name": "bench", "seed": 1, "model": MODEL, "training": training})
    return segment_map(stage, ROWS, build_mesh(stage.training.parallel))


def _groups(where: SegmentMap) -> list[dict[str, Any]]:
    """Return flat groups, as DeepSpeed's wrapper makes them."""
    import torch

    sizes = [sum(each.count for each in segments) for segments in where.groups]
    return [
        {"params": [torch.nn.Parameter(torch.randn(size) * 0.02)], "weight_decay": decay}
        for size, decay in zip(sizes, (0.01, 0.0), strict=True)
    ]


def _loop(flats: list[torch.Tensor], where: SegmentMap, optimizer: OptimizerConfig) -> Any:
    """Return a step of LAMB that goes through the parameters and needs new tensors for each."""
    import torch

    moments = [(torch.zeros_like(flat), torch.zeros_like(flat)) for flat in flats]
    steps = 0

    @torch.no_grad()
    def step() -> None:
        nonlocal steps
        steps += 1
        c1, c2 = 1 - optimizer.beta1**steps, 1 - optimizer.beta2**steps
        for flat, (mean, square), segments in zip(flats, moments, where.groups, strict=True):
            assert flat.grad is not None
            for each in segments:
                p, g, m, v = (x.narrow(0, each.first, each.count) for x in (flat, flat.grad, mean, square))
                m.mul_(optimizer.beta1).add_(g, alpha=1 - optimizer.beta1)
                v.mul_(optimizer.beta2).addcmul_(g, g, value=1 - optimizer.beta2)
                update = (m / c1).div_((v.sqrt() / c2**0.5).add_(optimizer.epsilon)).add_(p, alpha=0.01)
                ratio = p.norm() / update.norm()
                p.sub_(update * (optimizer.learning_rate * ratio))

    return step


def main() -> int:
    """Measure, print the result, and return 1 if the limit is exceeded."""
    from _support import machine, report

    from training.loop.quiet_logging import quiet_logging

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.setdefault("MASTER_PORT", "29657")
    quiet_logging()
    import torch

    from bloomery.config.training import OptimizerConfig
    from training.optim.lamb import Lamb

    torch.set_num_threads(options.threads)
    where, config = _map(), OptimizerConfig(kind="lamb", learning_rate=1e-4)
    lamb, adam = Lamb(_groups(where), config, where), torch.optim.AdamW(_groups(where), lr=1e-4, fused=True)
    flats = [group["params"][0] for group in _groups(where)]
    actions = {"lamb": lamb.step, "adam": adam.step, "loop": _loop(flats, where, config)}
    for flat in [group["params"][0] for each in (lamb, adam) for group in each.param_groups] + flats:
        flat.grad = torch.randn_like(flat)
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(options.rounds + 1):
        names = sorted(actions, reverse=bool(number % 2))
        for name in names:
            started = time.perf_counter()
            actions[name]()
            if number:  # the first round creates the state
                seconds[name].append(time.perf_counter() - started)
    torch.distributed.destroy_process_group()
    ratios = {
        name: [own / other for own, other in zip(seconds[name], seconds["adam"], strict=True)]
        for name in ("lamb", "loop")
    }
    median = statistics.median(ratios["lamb"])
    result = {
        "machine": machine(),
        "parameters": sum(flat.numel() for flat in flats),
        "threads": options.threads,
        "seconds_quartiles": {name: statistics.quantiles(each, n=4) for name, each in seconds.items()},
        "ratio": median,
        "ratio_quartiles": {name: statistics.quantiles(each, n=4) for name, each in ratios.items()},
        "limit": LIMIT,
    }
    return report("lamb", result, passed=median <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
