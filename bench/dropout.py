"""Claim: on one CPU process, a training step with dropout takes at most 1.15 times as long as one without.

    python bench/dropout.py > bench/results/dropout.json    # takes about 5 minutes

Two engines train the same network on the same batches in turn: one without dropout, one with dropout 0.1 of attention
weights and activations. The engine without dropout uses the attention back end that `auto` selects. Each precision has
its own pair of engines. The median of the paired ratios must not exceed the limit. Seconds are processor time, so other
load of the machine hardly changes them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

LAYERS, HIDDEN, HEADS, LENGTH, ROWS = 4, 512, 8, 512, 8192
MICRO_BATCH, MICRO_BATCHES = 2, 2
LIMIT = 1.15
DROPOUT = {"attention": 0.1, "hidden": 0.1}


def _trainer(precision: str, threads: int, dropout: dict[str, float]) -> Any:
    from bloomery.config.stages import TrainStage
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    model = {"layers": LAYERS, "hidden_size": HIDDEN, "heads": HEADS, "sequence_length": LENGTH}
    training = {
        "train_samples": 1 << 20,
        "batch": {"micro_batch_size": MICRO_BATCH, "global_batch_size": MICRO_BATCH * MICRO_BATCHES},
        "optimizer": {"learning_rate": 1e-4},
        "precision": precision,
        "dropout": dropout,
        "threads_per_rank": threads,
    }
    stage = TrainStage.model_validate({"name": "bench", "seed": 1, "model": model, "training": training})
    return build_trainer(stage, build_mesh(stage.training.parallel), ROWS)


def _measure(precision: str, pairs: int, threads: int) -> dict[str, Any]:
    import torch
    from _peer import random_batches

    trainers = {"without": _trainer(precision, threads, {}), "with": _trainer(precision, threads, DROPOUT)}
    batches = random_batches(MICRO_BATCHES, MICRO_BATCH, LENGTH, ROWS, torch.device("cpu"))
    samples = [range(number * MICRO_BATCH, (number + 1) * MICRO_BATCH) for number in range(MICRO_BATCHES)]
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    for pair in range(pairs + 1):
        for name in sorted(trainers, reverse=bool(pair % 2)):
            trainer = trainers[name]
            started = time.process_time()
            with trainer.network.dropout.step(1, pair, samples):
                float(trainer.engine.train_batch(iter(batches)))
            if pair:  # the first pair warms up
                seconds[name].append(time.process_time() - started)
    ratios = [own / other for own, other in zip(seconds["with"], seconds["without"], strict=True)]
    return {
        "attention": {name: trainer.network.kernels.attention for name, trainer in trainers.items()},
        "seconds_quartiles": {name: statistics.quantiles(each, n=4) for name, each in seconds.items()},
        "ratio": statistics.median(ratios),
        "ratio_quartiles": statistics.quantiles(ratios, n=4),
    }


def main() -> int:
    """Measure both precisions, print the result, and return 1 if the limit is exceeded."""
    from _support import machine, report

    from training.loop.quiet_logging import quiet_logging

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.setdefault("MASTER_PORT", "29656")
    quiet_logging()
    import torch

    torch.set_num_threads(options.threads)
    found = {precision: _measure(precision, options.pairs, options.threads) for precision in ("fp32", "bf16")}
    torch.distributed.destroy_process_group()
    result = {
        "machine": machine(),
        "shape": f"{LAYERS} layers, hidden {HIDDEN}, {HEADS} heads, {LENGTH} tokens, {ROWS} rows; {MICRO_BATCHES} "
        f"micro-batches of {MICRO_BATCH}; {options.threads} threads",
        "pairs": options.pairs,
        "precisions": found,
        "limit": LIMIT,
    }
    return report("dropout", result, passed=all(each["ratio"] <= LIMIT for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
