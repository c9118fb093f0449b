"""Open segments of training inside the ranks of `run_ranks`, so that tests can use the training state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fabricated_training import make_run

from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths


@contextmanager
def opened(stage: TrainStage, folder: Path, number: int = 1) -> Iterator[Any]:
    """Open the TrainingState of a segment on every rank of the stage's layout. The recorded skips of the run apply."""
    import torch.distributed as dist

    from bloomery.contracts.skips import effective
    from training.loop.quiet_logging import quiet_logging
    from training.loop.training_state import open_training
    from training.parallel.mesh import build_mesh

    quiet_logging()
    mesh = build_mesh(stage.training.parallel)
    if mesh.rank == 0:
        make_run(folder, stage)
    dist.barrier()
    paths = RunPaths(folder)
    run = open_training(effective(stage, paths), mesh, paths, number)
    try:
        yield run
    finally:
        run.close()


def records(folder: Path) -> list[dict[str, Any]]:
    """Return all records of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "train" / "logs" / "metrics.jsonl").read_text().splitlines()]


def steps(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the last record of each iteration."""
    return {record["iteration"]: record for record in records(folder) if "loss" in record}
