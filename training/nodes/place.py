"""The place of one machine among the machines of a training without a scheduler."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bloomery.base.errors import ConfigError
from bloomery.config.training import ParallelConfig

DEFAULT_PORT = 29500
"""Port on which node 0 accepts the other nodes, unless `--master-port` names another."""


@dataclass(frozen=True)
class NodePlace:
    """Place of this machine among the machines of a training."""

    nodes: int
    rank: int
    """Number of this machine, from 0 to `nodes` - 1. Node 0 controls the others."""
    ranks_per_node: int
    master_address: str
    """Host name or IP address of node 0 that all nodes can reach, including node 0 itself."""
    master_port: int = DEFAULT_PORT
    silence_seconds: float = 30.0
    """A node whose network does not answer for this time is lost."""
    wait_minutes: float = 60.0
    """Maximum time to wait for other nodes before a segment."""

    def check_world(self, parallel: ParallelConfig) -> None:
        """Check that the processes of all nodes are as many as the layout needs.

        Raises:
            ConfigError: the number of processes differs.
        """
        started = self.nodes * self.ranks_per_node
        if started != parallel.world_size:
            raise ConfigError(
                f"{self.nodes} nodes x {self.ranks_per_node} processes = {started} processes, but tensor x pipeline x "
                f"data = {parallel.tensor} x {parallel.pipeline} x {parallel.data} = {parallel.world_size}",
                where="--nodes, --ranks-per-node",
                expected=f"{parallel.world_size} processes in all, or a layout (training.parallel) of {started}",
            )

    def torchrun(self, port: int, arguments: list[str]) -> list[str]:
        """Return the command that starts the processes of this node.

        The rendezvous is static, so the ranks follow the order of the nodes.

        Args:
            port: free port of node 0 for the rendezvous.
            arguments: arguments for `training.loop.main`.
        """
        return [
            *(sys.executable, "-m", "training.processes.torchrun"),
            *("--nnodes", str(self.nodes), "--node-rank", str(self.rank)),
            *("--nproc-per-node", str(self.ranks_per_node)),
            *("--master-addr", self.master_address, "--master-port", str(port)),
            *("-m", "training.loop.main", *arguments),
        ]


def node_place(
    nodes: int | None,
    rank: int | None,
    ranks_per_node: int,
    master_address: str | None,
    master_port: int,
    silence_seconds: float,
    wait_minutes: float,
    *,
    in_slurm: bool,
) -> NodePlace | None:
    """Return the place that the options of the command line give. Return None if they name no place.

    With `in_slurm`, `nodes` alone is enough, because SLURM states the nodes of a job.

    Raises:
        ConfigError: the options are incomplete or contradict each other.
    """
    if rank is None and master_address is None and (nodes is None or in_slurm):
        return None
    if nodes is None or rank is None or master_address is None:
        raise ConfigError(
            "the options that describe several machines are incomplete",
            where="--nodes, --node-rank, --master-address",
            expected="all three options, such as --nodes 4 --node-rank 1 --master-address 10.0.0.1",
        )
    if rank >= nodes:
        raise ConfigError(
            f"node rank {rank} does not exist among {nodes} nodes",
            where="--node-rank",
            expected=f"a number from 0 to {nodes - 1}",
        )
    return NodePlace(nodes, rank, ranks_per_node, master_address, master_port, silence_seconds, wait_minutes)
