"""Measure the overhead of our training loop over bare DeepSpeed, with alternating steps in one process group.

    python bench/training_overhead.py            # 4 processes (TP 2 x PP 2), about 5 minutes; prints JSON

Ours is the default training loop: control poll, batch from the index, learning rate, step, guards, the broadcast that
keeps tied weights equal, record, log lines, TensorBoard and fsync. The comparison of replicas runs every 100
iterations. It is timed separately, and a hundredth of its time is added to each step.

Bare is the code that a user would write without us: `deepspeed.initialize` with the same JSON, an equal network and an
equal optimizer, and `engine.train_batch` on tensors that are ready. Validation and checkpoints are excluded, because a
bare loop has them, too. A step takes more than a second. The median overhead must be less than 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests" / "support")]

if TYPE_CHECKING:
    from bloomery.config.stages import TrainStage
    from training.parallel.mesh import Mesh

BATCH, MICRO_BATCH = 256, 8
"""Samples in a batch and in a micro-batch. The batch is so large that a step takes more than a second."""
FLOOR_PERCENT = 5.0


def _stage(pairs: int) -> TrainStage:
    from fabricated_training import SEQUENCE, stage

    from bloomery.config.stages import TrainStage

    batch = {"micro_batch_size": MICRO_BATCH, "global_batch_size": BATCH}
    values = stage(tensor=2, pipeline=2, samples=BATCH * (pairs + 4), batch=batch).model_dump(mode="json")
    values["model"] |= {"layers": 8, "hidden_size": 256, "heads": 8, "sequence_length": SEQUENCE}
    return TrainStage.model_validate(values)


def _bare_engine(stage: TrainStage, mesh: Mesh, rows: int) -> Any:
    """Build DeepSpeed's engine without our additions: the check that may skip an update, the broadcast of tied weights
    after an update, and the timing of forward and backward passes."""
    import deepspeed

    from bloomery.spec.batch_scaling import resolved_optimizer
    from bloomery.spec.deepspeed_json import deepspeed_json
    from training.model.initialize import initialize
    from training.model.pipeline import BloomPipeline
    from training.optim.builder import build_optimizer, parameter_groups
    from training.optim.verify_engine import TYPES

    training = stage.training
    network = BloomPipeline(mesh, stage.model, training, rows)
    initialize(network, mesh, stage.model, rows, stage.seed)
    network.to(TYPES[training.precision])
    groups = parameter_groups(network, training.optimizer, stage.model, rows)
    optimizer = build_optimizer(groups, resolved_optimizer(training), network.kernels.optimizer)
    # DeepSpeed logs to stdout, which must contain only data here.
    with contextlib.redirect_stdout(io.StringIO()):
        engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=deepspeed_json(training))
    return engine


def _measure(folder: Path, pairs: int) -> None:
    """Measure on one rank. Rank 0 prints the seconds of each kind of work."""
    from training.loop.quiet_logging import quiet_logging

    quiet_logging()
    import torch
    import torch.distributed as dist
    from fabricated_training import make_run

    from bloomery.contracts.paths import RunPaths
    from bloomery.spec.next_step import next_step
    from training.data.batches import micro_batches
    from training.loop.finish_step import finish_step
    from training.loop.train_step import train_step
    from training.loop.training_state import open_training
    from training.parallel.mesh import build_mesh

    configuration = _stage(pairs)
    torch.set_num_threads(1)
    mesh = build_mesh(configuration.training.parallel)
    if mesh.rank == 0:
        make_run(folder, configuration)
    dist.barrier()
    run = open_training(configuration, mesh, RunPaths(folder), 1)
    bare_engine = _bare_engine(configuration, mesh, run.trainer.vocabulary_rows)
    ready = list(micro_batches(run.reader.train, range(BATCH), MICRO_BATCH, mesh.data_rank, 1))

    def ours() -> None:
        done = run.position
        planned = next_step(configuration.model, configuration.training, done.consumed_samples, done.consumed_tokens)
        assert planned is not None
        finish_step(run, train_step(run, planned))

    def bare() -> None:
        bare_engine.train_batch(iter(ready))

    def replicas() -> None:
        run.check_replicas()

    def timed(action: Callable[[], None]) -> float:
        dist.barrier()
        started = time.perf_counter()
        action()
        dist.barrier()
        return time.perf_counter() - started

    seconds: dict[str, list[float]] = {"ours": [], "bare": [], "replicas": []}
    for pair in range(pairs + 1):
        order = [("ours", ours), ("bare", bare)]
        for name, action in [*(order if pair % 2 else order[::-1]), ("replicas", replicas)]:
            taken = timed(action)
            if pair:  # the first pair warms up
                seconds[name].append(taken)
    run.close()
    if mesh.rank == 0:
        print(json.dumps(seconds))
    dist.destroy_process_group()


def _result(seconds: dict[str, list[float]], every: int) -> dict[str, Any]:
    """Compute the printed result. `every` is the number of iterations between two comparisons of replicas."""
    from _support import machine

    share = statistics.median(seconds["replicas"]) / every
    times = {"ours": [each + share for each in seconds["ours"]], "bare": seconds["bare"]}
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratios = [one / other for one, other in zip(times["ours"], times["bare"], strict=True)]
    overhead = 100 * (medians["ours"] / medians["bare"] - 1)
    return {
        "benchmark": "training_overhead",
        "layout": "tensor 2 x pipeline 2 x data 1, gloo, bf16",
        "pairs": len(ratios),
        "median_seconds": medians,
        "quartiles_seconds": {name: statistics.quantiles(each, n=4) for name, each in times.items()},
        "replicas_compared": {
            "median_seconds": statistics.median(seconds["replicas"]),
            "every_iterations": every,
            "seconds_an_iteration": share,
        },
        "overhead_percent": overhead,
        "pairwise_overhead_percent_median": 100 * (statistics.median(ratios) - 1),
        "floor_percent": FLOOR_PERCENT,
        "machine": machine(),
        "passed": overhead < FLOOR_PERCENT,
    }


def main() -> int:
    """Start the ranks, print the result, and return 1 if the overhead is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12, help="pairs of steps to measure, at least 2")
    options = parser.parse_args()
    every = _stage(options.pairs).training.guards.replicas_every_iterations
    assert every is not None, "the default configuration must compare replicas"
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", __file__]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ranks = [*command, f"{scratch}/run", str(options.pairs)]
        done = subprocess.run(ranks, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.returncode
    result = _result(json.loads(done.stdout.strip().splitlines()[-1]), every)
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    if "RANK" in os.environ:
        _measure(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        sys.exit(main())
