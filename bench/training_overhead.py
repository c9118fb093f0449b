"""Our training loop over bare DeepSpeed: steps of both, interleaved in one process group, median and spread.

    python bench/training_overhead.py            # starts torchrun with 4 processes (TP 2 x PP 2), prints JSON

Ours: control poll, batch from the index, learning rate, step, guards, record, log lines, TensorBoard, fsync. Bare:
`engine.train_batch` of an equal engine, which nothing watches, on tensors that are already there. Steps of over a
second. Floor: less than 5 % (issue 7).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 12
BATCH = 256
"""So that a step takes over a second."""
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]


def _measure(folder: Path) -> None:
    from training.loop.quiet import quieten

    quieten()
    import torch
    import torch.distributed as dist
    from fabricated_training import SEQUENCE, make_run, stage

    from bloomery.config.stages import TrainStage
    from bloomery.contracts.paths import RunPaths
    from bloomery.plan.step import next_step
    from training.data.batches import micro_batches
    from training.loop.engine import build_trainer
    from training.loop.events import settle_step
    from training.loop.state import open_training
    from training.loop.step import train_step
    from training.parallel.mesh import build_mesh

    batch = {"micro_batch_size": 8, "global_batch_size": BATCH}
    values = stage(tensor=2, pipeline=2, samples=BATCH * (2 * PAIRS + 4), batch=batch).model_dump(mode="json")
    values["model"] |= {"layers": 8, "hidden_size": 256, "heads": 8, "sequence_length": SEQUENCE}
    configuration = TrainStage.model_validate(values)
    torch.set_num_threads(1)
    mesh = build_mesh(configuration.training.parallel)
    if mesh.rank == 0:
        make_run(folder, configuration)
    dist.barrier()
    run = open_training(configuration, mesh, RunPaths(folder), 1)
    plain = build_trainer(configuration, mesh, run.trainer.vocabulary_rows)
    ready = list(micro_batches(run.reader.train, range(BATCH), 8, mesh.data_rank, 1))

    def ours() -> None:
        done = run.position
        planned = next_step(configuration.model, configuration.training, done.consumed_samples, done.consumed_tokens)
        assert planned is not None
        settle_step(run, train_step(run, planned))

    def bare() -> None:
        plain.engine.train_batch(iter(ready))

    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for pair in range(PAIRS + 1):
        order = [("ours", ours), ("bare", bare)]
        for name, action in order if pair % 2 else order[::-1]:
            dist.barrier()
            started = time.perf_counter()
            action()
            dist.barrier()
            if pair:  # the first pair warms up
                times[name].append(time.perf_counter() - started)
    run.close()
    if mesh.rank == 0:
        medians = {name: statistics.median(values) for name, values in times.items()}
        quartiles = {name: statistics.quantiles(values, n=4) for name, values in times.items()}
        result = {
            "benchmark": "training_overhead",
            "layout": "tensor 2 x pipeline 2 x data 1, gloo, bf16",
            "pairs": PAIRS,
            "median_seconds": medians,
            "quartiles_seconds": quartiles,
            "overhead_percent": 100 * (medians["ours"] / medians["bare"] - 1),
            "pairwise_overhead_percent_median": 100
            * (statistics.median(a / b for a, b in zip(times["ours"], times["bare"], strict=True)) - 1),
            "floor_percent": 5.0,
        }
        print(json.dumps(result, indent=2))
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        _measure(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            sys.exit(subprocess.call([*command, __file__, f"{scratch}/run"], env=environment))
