"""Test the options that describe the place of a machine."""

from __future__ import annotations

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config.training import ParallelConfig
from training.nodes.place import NodePlace, node_place


def place(nodes=None, rank=None, address=None, *, in_slurm=False):
    return node_place(nodes, rank, 4, address, 29500, 30.0, 60.0, in_slurm=in_slurm)


def test_options_without_a_node_describe_this_machine_or_a_slurm_job() -> None:
    assert place() is None
    assert place(2, in_slurm=True) is None


@pytest.mark.parametrize("options", [(2,), (2, 1), (None, 0, "host"), (2, None, "host"), (None, None, "host")])
def test_incomplete_options_are_refused(options) -> None:
    with pytest.raises(ConfigError, match="incomplete"):
        place(*options)


def test_a_rank_beyond_the_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match="node rank 4 does not exist among 4 nodes"):
        place(4, 4, "host")
    assert place(4, 3, "host").rank == 3


def test_nodes_must_have_as_many_processes_as_the_layout_needs() -> None:
    NodePlace(8, 0, 8, "host").check_world(ParallelConfig(tensor=8, data=8))
    with pytest.raises(ConfigError, match=r"4 nodes x 4 processes = 16 processes, but .* = 2 x 1 x 4 = 8") as refused:
        NodePlace(4, 0, 4, "host").check_world(ParallelConfig(tensor=2, data=4))
    assert refused.value.exit_code == 2


def test_torchrun_has_a_static_rendezvous_with_node_0() -> None:
    command = NodePlace(8, 3, 4, "host").torchrun(23456, ["--number", "1"])
    assert command[1:] == [
        *("-m", "training.processes.torchrun", "--nnodes", "8", "--node-rank", "3", "--nproc-per-node", "4"),
        *("--master-addr", "host", "--master-port", "23456", "-m", "training.loop.main", "--number", "1"),
    ]
