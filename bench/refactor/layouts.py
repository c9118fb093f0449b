"""Record losses, gradient norms and schedules of a small training in each layout, with `bloomery train segment`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training_runs import make_index, metrics, prepare, train

LAYOUTS = [
    (1, 1, 1),
    (2, 1, 1),
    (4, 1, 1),
    (1, 2, 1),
    (1, 4, 1),
    (1, 1, 2),
    (2, 2, 1),
    (2, 1, 2),
    (1, 2, 2),
    (2, 2, 2),
]
"""Layouts (tensor, pipeline, data), as in tests/integration/training/test_layouts.py."""
_SHORT: dict[str, Any] = {
    "train_samples": 64,
    "batch": {
        "micro_batch_size": 2,
        "global_batch_size": 8,
        "rampup": {"start": 4, "increment": 4, "samples": 16},
    },
    "validation": {"every_iterations": 4, "samples": 4},
}


def record(folder: Path) -> dict[str, Any]:
    """Return the records of each layout in fp32, and of three trainings in bf16, in fp16 and with SGD. `folder` must be
    empty."""
    work = folder / "layouts"
    make_index(work)

    def trained(layout: tuple[int, int, int], sequence_parallel: bool = False, **training: Any) -> list[dict[str, Any]]:
        parallel = dict(zip(("tensor", "pipeline", "data"), layout, strict=True))
        parallel |= {"sequence_parallel": sequence_parallel}
        run = prepare(work, _SHORT | {"parallel": parallel, "precision": "fp32"} | training)
        train(work)
        return metrics(run)

    found = {"tp{}-pp{}-dp{}".format(*layout): trained(layout) for layout in LAYOUTS}
    sgd = {"kind": "sgd", "learning_rate": 0.1, "schedule": "constant", "momentum": 0.5}
    return found | {
        "bf16 with sequence parallelism": trained((2, 2, 1), sequence_parallel=True, precision="bf16"),
        "fp16 with cuts by type": trained((1, 2, 2), precision="fp16", partition="type:transformer|head"),
        "sgd without recomputation": trained((1, 1, 2), optimizer=sgd, activation_checkpointing="none"),
    }
