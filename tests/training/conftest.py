"""Runs to train in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from training_launcher import Launcher


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[..., Launcher]:
    """Make a run with an index and a stage configuration, and its launcher."""

    def make(name: str = "run", seed: int = 1, **values: object) -> Launcher:
        run = tmp_path / name
        return Launcher(run, make_run(run, stage(**values), seed))

    return make


@pytest.fixture(scope="module")
def mesh():
    """A mesh of one rank."""
    import torch.distributed as dist

    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    from training.loop.quiet import quieten

    quieten()
    from bloomery.config.training import ParallelConfig
    from training.parallel.mesh import build_mesh

    yield build_mesh(ParallelConfig())
    dist.destroy_process_group()
