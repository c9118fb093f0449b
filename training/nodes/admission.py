"""Listen for nodes that ask to take part, and decide which of them node 0 accepts."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

import bloomery
from bloomery.base.errors import ResourceError
from training.nodes.messages import Join, Refused, proves
from training.nodes.place import NodePlace


@dataclass(frozen=True)
class Admission:
    """Values that must be the same on a node and on node 0."""

    place: NodePlace
    key: bytes
    """Key of the run folder."""
    configuration: str
    """Digest of the training's configuration."""
    segment: int | None
    """Number of the only segment to train. None for all segments to the end of the training."""

    def refuse(self, join: Join, challenge: str, host: str | None) -> Refused | None:
        """Return why a node cannot join. Return None if it can.

        Args:
            join: the node's message.
            challenge: random text that node 0 sent to the node.
            host: host that takes part with the same rank. None if the rank is free.
        """
        if not proves(self.key, "node", challenge, join.proof):
            return Refused(
                reason="this node sees another run folder than node 0",
                expected="a run folder on a file system that all nodes share",
                later=False,
            )
        if join.configuration != self.configuration:
            return Refused(
                reason="this node reads another configuration of the training than node 0",
                expected="the same file on all nodes; if it was changed, start all nodes again",
                later=False,
            )
        for name, found, wanted in (
            ("version of Bloomery", join.version, bloomery.__version__),
            ("number of nodes (--nodes)", join.nodes, self.place.nodes),
            ("number of processes (--ranks-per-node)", join.ranks_per_node, self.place.ranks_per_node),
            ("segment (--number)", join.segment or "all", self.segment or "all"),
        ):
            if found != wanted:
                return Refused(
                    reason=f"this node has another {name} than node 0: {found}, and node 0 has {wanted}",
                    expected="the same command and the same version on all nodes, except for --node-rank",
                    later=False,
                )
        if not 0 < join.rank < self.place.nodes:
            expected = f"a --node-rank from 1 to {self.place.nodes - 1}"
            return Refused(reason=f"node rank {join.rank} does not exist", expected=expected, later=False)
        if host is not None:
            return Refused(
                reason=f"a process on {host} takes part as node {join.rank}",
                expected="one process for each node rank",
                later=True,
            )
        return None


def listen(place: NodePlace) -> socket.socket:
    """Return a socket that accepts connections of the address family of the master address.

    Raises:
        ResourceError: another process uses the port.
    """
    family = socket.AF_INET
    with contextlib.suppress(OSError):
        # In Kubernetes, the name may be unknown for some seconds after the start.
        family = socket.getaddrinfo(place.master_address, place.master_port, type=socket.SOCK_STREAM)[0][0]
    try:
        return socket.create_server(("", place.master_port), family=family)
    except OSError as error:
        raise ResourceError(
            f"cannot accept connections of the other nodes ({error.strerror})",
            where=f"port {place.master_port}",
            expected="a port that no process of this machine uses; choose another --master-port on all nodes",
        ) from error
