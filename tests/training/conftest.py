"""Runs to train in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from ranks import free_port
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

    from bloomery.config.training import ParallelConfig
    from training.loop.quiet_logging import quiet_logging
    from training.parallel.mesh import build_mesh

    quiet_logging()
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    # What other tests start is no rank of this one, and another suite may run beside this.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**rank, "MASTER_PORT": str(free_port())}.items():
            patch.setenv(name, value)
        yield build_mesh(ParallelConfig())
        dist.destroy_process_group()
