"""The place of a process among all processes of a training, from the environment variables of torchrun."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bloomery.base import slurm


@dataclass(frozen=True)
class Place:
    """The place of a process."""

    rank: int
    local_rank: int
    """Number of the process among the processes of its node."""
    world: int
    """Number of processes of the training."""
    local_world: int
    """Number of processes of the training on this node."""
    host: str
    """SLURM's name of the node in a SLURM job, and the host name outside."""

    @property
    def is_first_of_node(self) -> bool:
        """Whether this is the first process of its node."""
        return self.local_rank == 0


def own_place(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place of this process. Without torchrun, it is the only process."""

    def number(name: str, default: int) -> int:
        return int(environment.get(name) or default)

    world = number("WORLD_SIZE", 1)
    return Place(
        rank=number("RANK", 0),
        local_rank=number("LOCAL_RANK", 0),
        world=world,
        local_world=number("LOCAL_WORLD_SIZE", world),
        host=slurm.own_node() or socket.gethostname(),
    )


def ranks_of_hosts(hosts: Sequence[str]) -> dict[str, list[int]]:
    """Return the ranks of each node, in the order of the nodes' first ranks. `hosts` names the node of each rank."""
    found: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        found.setdefault(host, []).append(rank)
    return found
