"""Measure the tokens per second of each layout on this machine's cores with gloo, and its efficiency.

        python bench/training_layouts.py                # takes some minutes; prints JSON

Efficiency is a layout's tokens/s divided by those of one process that has one thread for each core. The layouts run in
turn in each round. On a machine of C cores, R ranks run as processes with max(1, C / R) threads each and share the
cores. The efficiency therefore shows the cost of splitting (messages, pipeline bubbles), not the gain of more machines.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

LAYOUTS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1)]
LAYERS, HIDDEN, HEADS, LENGTH, ROWS = 8, 256, 8, 256, 8192
MICRO_BATCH, BATCH = 4, 64
ROUNDS, STEPS = 2, 3


def _measure(tensor: int, pipeline: int, data: int, threads: int) -> None:
    """Measure the seconds of each step on one rank. Rank 0 prints them."""
    from training.loop.quiet_logging import quiet_logging

    quiet_logging()
    import torch
    import torch.distributed as dist
    from _peer import random_batches

    from bloomery.config.stages import TrainStage
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    torch.set_num_threads(threads)
    model = {"layers": LAYERS, "hidden_size": HIDDEN, "heads": HEADS, "sequence_length": LENGTH}
    training = {
        "train_samples": 1 << 20,
        "parallel": {"tensor": tensor, "pipeline": pipeline, "data": data},
        "batch": {"micro_batch_size": MICRO_BATCH, "global_batch_size": BATCH},
        "optimizer": {"learning_rate": 1e-4},
        "activation_checkpointing": "none",
    }
    stage = TrainStage.model_validate({"name": "bench", "seed": 1, "model": model, "training": training})
    trainer = build_trainer(stage, build_mesh(stage.training.parallel), ROWS)
    batches = random_batches(BATCH // MICRO_BATCH // data, MICRO_BATCH, LENGTH, ROWS, torch.device("cpu"))
    seconds = []
    for number in range(STEPS + 1):
        dist.barrier()
        started = time.perf_counter()
        trainer.engine.train_batch(iter(batches))
        dist.barrier()
        if number:
            seconds.append(time.perf_counter() - started)
    if dist.get_rank() == 0:
        print(json.dumps(seconds))
    dist.destroy_process_group()


def _run(layout: tuple[int, int, int], threads: int) -> list[float]:
    world = layout[0] * layout[1] * layout[2]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world), __file__]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    arguments = [str(each) for each in (*layout, threads)]
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """Measure every layout in turn, and print the result."""
    from _support import machine

    cores = os.cpu_count() or 1
    seconds: dict[tuple[int, int, int], list[float]] = {layout: [] for layout in LAYOUTS}
    for _ in range(ROUNDS):
        for layout in LAYOUTS:
            world = layout[0] * layout[1] * layout[2]
            seconds[layout] += _run(layout, max(1, cores // world))
    typical = {layout: statistics.median(each) for layout, each in seconds.items()}
    result = {
        "benchmark": "training_layouts",
        "shape": f"{LAYERS} layers, hidden {HIDDEN}, {LENGTH} tokens, {ROWS} rows, {BATCH} samples by {MICRO_BATCH}",
        "layouts": {
            f"tensor {layout[0]} x pipeline {layout[1]} x data {layout[2]}": {
                "tokens_per_second": round(BATCH * LENGTH / typical[layout], 1),
                "seconds": {"least": min(each), "median": typical[layout], "greatest": max(each)},
                "efficiency": round(typical[1, 1, 1] / typical[layout], 3),
            }
            for layout, each in seconds.items()
        },
        "machine": machine(),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    if "RANK" in os.environ:
        _measure(*(int(each) for each in sys.argv[1:]))
    else:
        sys.exit(main())
