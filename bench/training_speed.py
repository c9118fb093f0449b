"""Compare our training step with transformers' `BloomForCausalLM`: tokens per second of one process, in turn.

        python bench/training_speed.py                   # takes about 5 minutes; prints JSON

Both train the same network from the same weights on the same tokens. Weights and activations are bf16, gradients of the
micro-batches are summed in fp32 and clipped, and AdamW updates fp32 master weights, which are rounded to bf16. Our step
runs in DeepSpeed's pipeline engine with one stage. bench/training_overhead.py measures the overhead of the loop. The
peer is a plain PyTorch loop that does the same. The losses are compared to check that both compute the same. The ratio
of our speed to the peer's must be at least 1.0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

if TYPE_CHECKING:
    from bloomery.config.stages import TrainStage

LAYERS, HIDDEN, HEADS, LENGTH, ROWS = 6, 512, 8, 512, 16_384
MICRO_BATCH, MICRO_BATCHES = 4, 4
FLOOR = 1.0


def _stage(threads: int) -> TrainStage:
    from bloomery.config.stages import TrainStage

    model = {"layers": LAYERS, "hidden_size": HIDDEN, "heads": HEADS, "sequence_length": LENGTH}
    training = {
        "train_samples": 1 << 20,
        "batch": {"micro_batch_size": MICRO_BATCH, "global_batch_size": MICRO_BATCH * MICRO_BATCHES},
        "optimizer": {"learning_rate": 1e-4},
        "activation_checkpointing": "none",
        "threads_per_rank": threads,
    }
    return TrainStage.model_validate({"name": "bench", "seed": 1, "model": model, "training": training})


def _peer(stage: TrainStage) -> Any:
    """Return transformers' model with our initial weights."""
    import torch
    from transformers import BloomConfig, BloomForCausalLM

    from bloomery.spec.parameters import declare
    from training.model.initialize import draw

    config = BloomConfig(vocab_size=ROWS, hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS, use_cache=False)
    model = BloomForCausalLM(config).to(torch.bfloat16)
    own = dict(model.transformer.named_parameters())
    with torch.no_grad():
        for parameter in declare(stage.model, ROWS):
            own[parameter.name].copy_(draw(parameter, stage.model, stage.seed))
    return model


def _measure(pairs: int, threads: int) -> dict[str, Any]:
    from training.loop.quiet_logging import quiet_logging

    quiet_logging()
    import torch
    import torch.distributed as dist
    from _peer import PlainLoop, random_batches
    from _support import machine

    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    torch.set_num_threads(threads)
    stage = _stage(threads)
    trainer = build_trainer(stage, build_mesh(stage.training.parallel), ROWS)
    for group in trainer.engine.optimizer.param_groups:
        group["lr"] = stage.training.optimizer.learning_rate
    peer = PlainLoop(_peer(stage), stage.training.optimizer)
    batches = random_batches(MICRO_BATCHES, MICRO_BATCH, LENGTH, ROWS, torch.device("cpu"))

    def ours() -> float:
        return float(trainer.engine.train_batch(iter(batches)))

    seconds: dict[str, list[float]] = {"ours": [], "transformers": []}
    losses: dict[str, list[float]] = {"ours": [], "transformers": []}
    for pair in range(pairs + 1):
        order = [("ours", ours), ("transformers", lambda: float(peer.step(batches)))]
        for name, action in order if pair % 2 else order[::-1]:
            started = time.perf_counter()
            losses[name].append(action())
            if pair:  # the first pair warms up
                seconds[name].append(time.perf_counter() - started)
    dist.destroy_process_group()
    tokens = MICRO_BATCH * MICRO_BATCHES * LENGTH
    ratios = [theirs / own for own, theirs in zip(seconds["ours"], seconds["transformers"], strict=True)]
    worst = max(abs(one / other - 1) for one, other in zip(losses["ours"], losses["transformers"], strict=True))
    return {
        "benchmark": "training_speed",
        "shape": f"{LAYERS} layers, hidden {HIDDEN}, {HEADS} heads, {LENGTH} tokens, {ROWS} rows; "
        f"{MICRO_BATCHES} micro-batches of {MICRO_BATCH}; {threads} threads",
        "pairs": pairs,
        "tokens_per_second": {name: round(tokens / statistics.median(each), 1) for name, each in seconds.items()},
        "seconds_quartiles": {name: statistics.quantiles(each, n=4) for name, each in seconds.items()},
        "ratio": {
            "median": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "greatest": round(max(ratios), 3),
        },
        "floor": FLOOR,
        "greatest_relative_difference_of_losses": worst,
        "machine": machine(),
        # Losses differ slightly because the order of bf16 sums differs; the losses of another network would differ much
        # more.
        "passed": statistics.median(ratios) >= FLOOR and worst < 5e-3,
    }


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.setdefault("MASTER_PORT", "29655")
    result = _measure(options.pairs, options.threads)
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
