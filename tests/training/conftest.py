"""Provide a process group of one rank and a fake apex that needs no GPU."""

from __future__ import annotations

import sys

import pytest
from ranks import free_port


@pytest.fixture(scope="module")
def mesh():
    """Create a mesh of one rank."""
    import torch.distributed as dist

    from bloomery.config.training import ParallelConfig
    from training.loop.quiet_logging import quiet_logging
    from training.parallel.mesh import build_mesh

    quiet_logging()
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    # The environment is restored afterwards, so processes of other tests do not join this group. The port is free,
    # because another test run may use this machine at the same time.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**rank, "MASTER_PORT": str(free_port())}.items():
            patch.setenv(name, value)
        yield build_mesh(ParallelConfig())
        dist.destroy_process_group()


@pytest.fixture
def apex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace apex with modules that compute with torch."""
    from fake_apex import modules

    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
