"""A process group of one rank, and an apex without a GPU."""

from __future__ import annotations

import sys

import pytest
from ranks import free_port


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


@pytest.fixture
def apex(monkeypatch: pytest.MonkeyPatch) -> None:
    """An apex that computes with torch."""
    from fake_apex import modules

    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
