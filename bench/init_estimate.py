"""Compare the training time that `bloomery init` estimates with the real one, for models of three shapes.

    python bench/init_estimate.py                # about 5 minutes; prints JSON

For each shape, the program runs a probe of at most 20 s, as `bloomery init` does. Then it runs a real training of one
segment (launcher, ranks, index, guards, validations, checkpoints) to its end. The error is estimate / real - 1 and must
be at most 30 % for each shape. Other work on the machine changes the times, so the load average before and after is
printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests" / "support")]

MOST_ERROR = 0.3
LANGUAGES = 2
"""Number of languages in the fabricated index, each with one validation set."""
SHAPES: dict[str, dict[str, int]] = {
    "small": {"layers": 2, "hidden_size": 128, "heads": 4},
    "wide": {"layers": 4, "hidden_size": 384, "heads": 6},
    "deep": {"layers": 12, "hidden_size": 192, "heads": 4},
}


def _config(name: str, iterations: int) -> Any:
    from fabricated_training import SEQUENCE, VOCABULARY

    from bloomery.checks.load_config import validate_config

    micro, batch = 16, 64
    return validate_config(
        {
            "name": name,
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"], "language": "fr"}],
            "tokenizer": {"vocabulary_size": VOCABULARY, "reserved_tokens": 16},
            "model": SHAPES[name] | {"sequence_length": SEQUENCE},
            "training": {
                "train_samples": iterations * batch,
                "batch": {"micro_batch_size": micro, "global_batch_size": batch},
                "optimizer": {"learning_rate": 1e-3},
                "precision": "fp32",
                "activation_checkpointing": "none",
                "checkpoint": {"every_iterations": iterations},
                "validation": {"every_iterations": max(1, iterations // 2), "samples": 8},
                "threads_per_rank": os.cpu_count() or 1,
            },
        }
    )


def _trained_seconds(config: Any, folder: Path) -> float:
    """Return the seconds that a whole segment takes, from the start of the launcher to its end."""
    from fabricated_training import make_run

    from bloomery.config.stages import TrainStage
    from training.segments.launch import launch_segment

    stage = TrainStage(name=config.name, seed=1, model=config.model, training=config.training)
    path = make_run(folder, stage)
    started = time.perf_counter()
    segment = launch_segment(path, folder, 1, folder / "train" / "segments" / "1.json")
    assert segment.status == "finished", segment
    return time.perf_counter() - started


def measure(seconds: float) -> dict[str, Any]:
    """Return the estimate, the real duration and the error for each shape. Each training takes about `seconds`."""
    from _support import machine

    from data_prep.new_run.estimate_duration import run_probe, training_seconds

    found = {}
    for name in SHAPES:
        load = os.getloadavg()[0]
        probe = run_probe(_config(name, 100))
        one = probe.iteration_seconds(_config(name, 100), 64)
        config = _config(name, max(10, round(seconds / one)))
        estimate = training_seconds(config, probe, LANGUAGES)
        with tempfile.TemporaryDirectory() as scratch:
            real = _trained_seconds(config, Path(scratch) / "run")
        found[name] = {
            "estimated_seconds": round(estimate, 1),
            "real_seconds": round(real, 1),
            "error": round(estimate / real - 1, 3),
            "probe_steps": probe.steps,
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        }
    worst = max(abs(each["error"]) for each in found.values())
    return {
        "benchmark": "init_estimate",
        "shapes": found,
        "worst_error": worst,
        "floor": MOST_ERROR,
        "machine": machine(),
        "passed": worst <= MOST_ERROR,
    }


def main() -> int:
    """Measure, print the result, and return 1 if an estimate is wrong by more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that each training should take, about")
    result = measure(parser.parse_args().seconds)
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
