"""Measure how long the comparison of replicas takes compared with the save that it precedes.

    python bench/save_comparison.py            # 2 processes (TP 2), about 1 minute; prints JSON

Before each save, the training fingerprints all weights and all fp32 state and compares the fingerprints of all ranks.
Comparison and save are timed in alternation, on a network of about 30 M parameters. The save hashes, writes and syncs
its files. The comparison must take less than 25 % of the time of the save.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests" / "support")]

CEILING_PERCENT = 25.0


def _measure(folder: str, rounds: int) -> dict[str, Any]:
    """Time comparisons and saves on one rank, in seconds."""
    import torch.distributed as dist
    from fabricated_training import SEQUENCE, stage
    from segments import opened

    from bloomery.config.stages import TrainStage
    from bloomery.spec.next_step import next_step
    from bloomery.spec.parameters import parameter_count
    from training.loop.train_step import train_step

    values = stage(tensor=2, samples=64).model_dump(mode="json")
    values["model"] |= {"layers": 9, "hidden_size": 512, "heads": 8, "sequence_length": SEQUENCE}
    configuration = TrainStage.model_validate(values)
    compared, saved = [], []
    with opened(configuration, Path(folder)) as run:
        for round_ in range(rounds + 1):
            # A step makes the position new, so that the checkpoint is written.
            at = run.position
            planned = next_step(configuration.model, configuration.training, at.consumed_samples, at.consumed_tokens)
            assert planned is not None
            train_step(run, planned)
            dist.barrier()
            started = time.perf_counter()
            run.check_replicas()
            middle = time.perf_counter()
            run.checkpoints.save(run.position)
            ended = time.perf_counter()
            if round_:  # the first round warms up
                compared.append(middle - started)
                saved.append(ended - middle)
        return {
            "parameters": parameter_count(configuration.model, run.trainer.vocabulary_rows),
            "compare_seconds": compared,
            "save_seconds": saved,
        }


def main() -> int:
    """Start the ranks, print the result, and return 1 if the comparison takes too long."""
    from _support import machine, report
    from ranks import run_ranks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of measured saves, at most 3")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        measured = run_ranks(_measure, 2, str(Path(scratch) / "run"), rounds, timeout=900)[0]
    compare, save = (statistics.median(measured[f"{name}_seconds"]) for name in ("compare", "save"))
    result = {
        "layout": "tensor 2 x pipeline 1 x data 1, gloo, bf16",
        "parameters": measured["parameters"],
        "rounds": rounds,
        "median_seconds": {"compare": compare, "save": save},
        "compare_percent_of_save": 100 * compare / save,
        "ceiling_percent": CEILING_PERCENT,
        "machine": machine(),
    }
    return report("save_comparison", result, passed=100 * compare / save < CEILING_PERCENT)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
