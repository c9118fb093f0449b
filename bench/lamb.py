"""Claim: a step of LAMB takes at most 1.6 times as long as a step of torch's fused AdamW.

    pip download timm --no-deps -d wheel && unzip -d timm wheel/timm*.whl 'timm/optim/*'
    python bench/lamb.py --timm timm > bench/results/lamb.json    # takes about 3 minutes and 6 GB of memory

Both update 100 M parameters in the shapes of a GPT in fp32, in turn, on all cores. LAMB reads and writes 10 numbers for
each parameter in its two passes, and Adam 7. So memory traffic alone gives a ratio of 1.43. The peer is LAMB as a loop
of torch operations over the parameters. The median of the paired ratios must not exceed the limit.

With --timm, timm's `Lamb` is timed, too. Its file is loaded alone, because the package timm needs torchvision. It also
makes ten steps beside ours, with the dialect `apex`, on tensors of which some start at 0 and some do not decay. No
weight may differ by more than 1e-6.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

if TYPE_CHECKING:
    import torch

    from bloomery.config.training import OptimizerConfig
    from training.optim.segment_map import SegmentMap

LIMIT = 1.6
MOST_DIFFERENCE = 1e-6
SHAPES = {"wide": (40, 33), "zero": (17,), "deep": (7, 5, 3), "bias": (29,)}
"""Tensors of the comparison. The first and the third decay, and `zero` starts at 0."""
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


def _timm_lamb(folder: Path) -> Any:
    """Return timm's class from the unpacked files, without importing the package timm."""
    for name in ("timm", "timm.optim"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    return importlib.import_module("timm.optim.lamb").Lamb


def _difference(timm_lamb: Any) -> float:
    """Return the greatest difference of a weight after ten steps of ours and of timm's."""
    import torch

    from bloomery.config.training import OptimizerConfig
    from bloomery.spec.placement import Initializer, Parameter, Placement
    from training.optim.lamb import Lamb
    from training.optim.segment_map import Segment, SegmentMap

    start = {name: torch.randn(shape) * (name != "zero") for name, shape in SHAPES.items()}
    decays = {name: 0.01 if name in ("wide", "deep") else 0.0 for name in SHAPES}
    theirs = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    parameters = [
        Parameter(name, shape, Placement.REPLICATED, 0, name, Initializer.NORMAL, decays[name] > 0)
        for name, shape in SHAPES.items()
    ]
    groups, segments, peers = [], [], []
    for decay in (0.01, 0.0):
        members = [number for number, each in enumerate(parameters) if decays[each.name] == decay]
        firsts = [sum(parameters[n].count for n in members[:row]) for row in range(len(members))]
        segments.append(
            [Segment(n, first, parameters[n].count, is_owned=True) for n, first in zip(members, firsts, strict=True)]
        )
        flat = torch.cat([start[parameters[n].name].flatten() for n in members])
        groups.append({"params": [torch.nn.Parameter(flat)], "weight_decay": decay})
        peers.append({"params": [theirs[parameters[n].name] for n in members], "weight_decay": decay})
    config = OptimizerConfig(kind="lamb", learning_rate=0.02, beta2=0.999, epsilon=1e-6)
    ours, peer = Lamb(groups, config, SegmentMap(parameters, segments, 0, 1)), timm_lamb(peers, lr=0.02)
    peer.defaults["max_grad_norm"] = None
    for _ in range(10):
        for name, weight in theirs.items():
            weight.grad = torch.randn(SHAPES[name])
        for group, each in zip(groups, segments, strict=True):
            gradients = [theirs[parameters[segment.parameter].name].grad for segment in each]
            group["params"][0].grad = torch.cat([gradient.flatten() for gradient in gradients])
        ours.step()
        peer.step()
    found = []
    for group, each in zip(ours.param_groups, segments, strict=True):
        flat = group["params"][0].detach()
        for segment in each:
            own = flat.narrow(0, segment.first, segment.count)
            found.append((own - theirs[parameters[segment.parameter].name].detach().flatten()).abs().max().item())
    return max(found)


def main() -> int:
    """Measure, print the result, and return 1 if the limit is exceeded."""
    from _support import machine, report

    from training.loop.quiet_logging import quiet_logging

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timm", type=Path, help="folder with timm/optim of the package timm")
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
    difference = None
    if options.timm is not None:
        timm_lamb = _timm_lamb(options.timm)
        difference = _difference(timm_lamb)
        separate = [
            {
                "params": [
                    torch.nn.Parameter(torch.randn(where.parameters[each.parameter].shape)) for each in segments
                ],
                "weight_decay": decay,
            }
            for segments, decay in zip(where.groups, (0.01, 0.0), strict=True)
        ]
        for group in separate:
            for weight in group["params"]:
                weight.grad = torch.randn_like(weight)
        actions["timm"] = timm_lamb(separate, lr=1e-4, max_grad_norm=None).step
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
        for name in actions
        if name != "adam"
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
        "greatest_difference_from_timm": difference,
    }
    return report("lamb", result, passed=median <= LIMIT and (difference is None or difference <= MOST_DIFFERENCE))


if __name__ == "__main__":
    sys.exit(main())
