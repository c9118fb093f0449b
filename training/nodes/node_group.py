"""Node 0's side of a training on several machines: accept the other nodes, start and end their processes.

Node 0 keeps one connection to each of the other nodes from the time when the node joins. The end of a connection means
that the node is lost. Then node 0 ends the segment, instead of waiting until a collective fails.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bloomery.base.atomic import write_text
from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.progress import say
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Fault, Segment, SegmentStatus
from training.nodes.admission import Admission, listen
from training.nodes.interface import gloo_environment
from training.nodes.messages import (
    Accepted,
    ConnectionLostError,
    Done,
    Ended,
    EndProcesses,
    Hello,
    Join,
    Link,
    Start,
    StopRequest,
    make_key,
    new_challenge,
    proof,
)
from training.nodes.place import NodePlace
from training.processes.run_processes import BY_SIGNAL
from training.processes.start_command import rendezvous_port

_POLL_SECONDS = 0.2
_SAY_EVERY_SECONDS = 30.0
_HANDSHAKE_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""Time for node 0's own processes to end by themselves after another node failed, so that they can report errors."""
_END_SECONDS = 90.0
"""Maximum time for another node to end its processes."""
_LINGER_SECONDS = 30.0
"""Maximum time that node 0 waits after a successful end for nodes that start late, so that they end too."""
_CLOSE_SECONDS = 5.0


@dataclass
class _Node:
    """Another node that has joined."""

    link: Link
    rank: int
    host: str
    runs: bool = False
    """Whether its processes of the current segment run."""

    def __str__(self) -> str:
        return f"node {self.rank} ({self.host})"


class NodeGroup:
    """The other nodes of a training, as node 0 sees them."""

    def __init__(self, place: NodePlace, paths: RunPaths, configuration: str, segment: int | None) -> None:
        """Listen for the other nodes.

        Args:
            place: place of this machine, whose rank is 0.
            paths: paths of the run.
            configuration: digest of the training's configuration, which must be the same on all nodes.
            segment: number of the only segment to train. None for all segments to the end of the training.

        Raises:
            ResourceError: another process uses the port.
        """
        self.place, self.paths = place, paths
        self.port = 0
        """Port of the current segment's rendezvous. `wait_for_nodes` chooses it."""
        self._admission = Admission(place, make_key(paths.control), configuration, segment)
        self._changed = threading.Condition()
        self._nodes: dict[int, _Node] = {}
        self._told: set[int] = set()
        self._done: Done | None = None
        self._stop_asked = False
        self._failure: tuple[float, str] | None = None
        """Time and reason of the first failure of another node in the current segment."""
        self._fault = Fault.PROCESS
        self._hosts: tuple[str, ...] = ()
        """Host names of the nodes of the current segment, in the order of their ranks."""
        self._running = False
        """Whether node 0's processes of a segment run."""
        self._safe_at = 0.0
        self._server = listen(place)
        threading.Thread(target=self._accept, name="accept-nodes", daemon=True).start()

    def wait_for_nodes(self) -> None:
        """Wait until all nodes have joined.

        Raises:
            TryAgainError: a stop was requested, or nodes are missing after `wait_minutes`.
        """
        began = said = time.monotonic()
        with self._changed:
            while (missing := self._missing()) or time.monotonic() < self._safe_at:
                self._changed.wait(_POLL_SECONDS)
                self._heed_stop()
                now = time.monotonic()
                if missing and now - said > _SAY_EVERY_SECONDS:
                    said = now
                    say(f"waiting for {missing} of {self.place.nodes} at port {self.place.master_port}")
                if missing and now - began > 60 * self.place.wait_minutes:
                    raise TryAgainError(
                        f"{missing} of {self.place.nodes} did not join within {self.place.wait_minutes:g} minutes",
                        where=f"{self.place.master_address}, port {self.place.master_port}",
                        expected="the same command with its own --node-rank on every node; a network in which the "
                        "nodes reach all ports of each other",
                    )
            self._heed_stop()
        self.port = rendezvous_port(os.getpid() + int(time.monotonic()))

    @contextlib.contextmanager
    def segment(self, number: int, environment: Mapping[str, str]) -> Iterator[None]:
        """Start the processes of the other nodes. When the context ends, end them and wait for their end.

        Args:
            number: number of the segment.
            environment: environment variables that the processes of all nodes share.
        """
        with self._changed:
            self._failure, self._running = None, True
            self._hosts = (socket.gethostname(), *(node.host for _, node in sorted(self._nodes.items())))
            for rank in self._missing_ranks():
                self._fail(f"node {rank} left before the segment began", Fault.NODE)
            for node in self._nodes.values():
                node.runs = True
                node.link.send(Start(number=number, port=self.port, environment=dict(environment)))
        try:
            yield
        finally:
            self._end_processes()

    def failure(self) -> str | None:
        """Return the first failure of another node in the current segment. Return None if there is none.

        The failure is returned only after some seconds, in which node 0's own processes can report errors."""
        with self._changed:
            if self._failure is None or time.monotonic() - self._failure[0] < _GRACE_SECONDS:
                return None
            return self._failure[1]

    def describe(self, segment: Segment) -> Segment:
        """Return the segment's record with the hosts of all nodes, and with the failure of another node, if any."""
        segment = segment.model_copy(update={"nodes": self._hosts})
        if segment.status is not SegmentStatus.CRASHED or self._failure is None:
            return segment
        # The processes of all nodes end soon after one of them fails, so the failed node may not be the first one.
        update = {"message": f"{segment.message}; {self._failure[1]}", "fault": self._fault}
        return segment.model_copy(update=update)

    def environment(self) -> dict[str, str]:
        """Return the variables that make gloo use the interface over which the other nodes reach this machine."""
        with self._changed:
            links = [node.link for node in self._nodes.values()]
        return gloo_environment(links[0].own_address) if links else {}

    def close(self, exit_code: int, message: str, linger: Callable[[], bool]) -> None:
        """Tell the other nodes that the command has ended.

        While `linger` returns true, wait up to 30 s for nodes that have not joined, so that late nodes end too.
        """
        with self._changed:
            self._done = Done(exit_code=exit_code, message=message)
            for node in self._nodes.values():
                self._tell(node)
            end = time.monotonic() + _LINGER_SECONDS
            while len(self._told) < self.place.nodes - 1 and time.monotonic() < end and linger():
                self._changed.wait(_POLL_SECONDS)
            # The other nodes close their connections when they have read the message.
            end = time.monotonic() + _CLOSE_SECONDS
            while self._nodes and time.monotonic() < end:
                self._changed.wait(_POLL_SECONDS)
            left = list(self._nodes.values())
        for node in left:
            node.link.close()
        with contextlib.suppress(OSError):
            # Without this, the thread that waits in `accept` would keep the port.
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        """Serve each connection in its own thread, until node 0 closes the port."""
        while self._done is None or self._server.fileno() >= 0:
            try:
                connection, _ = self._server.accept()
            except OSError:  # The port is closed, or a limit such as that of open files is reached for a while.
                time.sleep(_POLL_SECONDS)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="serve-node", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Let the other side join, and handle its messages until the connection ends."""
        try:
            link = Link(connection, self.place.silence_seconds)
        except OSError:  # The other side has already closed the connection.
            connection.close()
            return
        node = None
        link.limit(_HANDSHAKE_SECONDS)
        with contextlib.suppress(ConnectionLostError):
            node = self._join(link)
        if node is None:
            link.close()
            return
        link.limit(None)
        try:
            while True:
                message = link.receive()
                with self._changed:
                    if isinstance(message, Ended):
                        node.runs = False
                        if message.code != 0:
                            self._fail(f"the processes of {node} ended with code {message.code}", Fault.PROCESS)
                    elif isinstance(message, StopRequest):
                        self._ask_to_stop(node)
                    self._changed.notify_all()
        except ConnectionLostError as error:
            with self._changed:
                self._lose(node, error)
        finally:
            link.close()

    def _join(self, link: Link) -> _Node | None:
        """Let the other side of `link` join. Return None if it is refused."""
        challenge = new_challenge()
        link.send(Hello(challenge=challenge))
        join = link.receive()
        if not isinstance(join, Join):
            return None
        with self._changed:
            other = self._nodes.get(join.rank)
            refused = self._admission.refuse(join, challenge, None if other is None else other.host)
            if refused is not None:
                link.send(refused)
                return None
            node = _Node(link, join.rank, join.host)
            self._nodes[join.rank] = node
            link.send(Accepted(proof=proof(self._admission.key, "master", join.challenge)))
            if self._done is not None:
                self._tell(node)
            else:
                say(f"{node} has joined: {len(self._nodes) + 1} of {self.place.nodes} nodes")
            self._changed.notify_all()
        return node

    def _fail(self, reason: str, fault: Fault) -> None:
        """Note the first failure of the current segment, and print it."""
        if self._failure is None and self._running:
            self._failure, self._fault = (time.monotonic(), reason), fault
            say(reason)

    def _lose(self, node: _Node, error: ConnectionLostError) -> None:
        """Note that the connection to a node has ended."""
        del self._nodes[node.rank]
        if error.silent:
            # The node notices the silence after the same time, and then ends its processes. Until then they might
            # write to the run folder, so the next segment must not start before.
            self._safe_at = time.monotonic() + self.place.silence_seconds
        if node.runs:
            node.runs = False
            self._fail(f"{node} is lost: {error}", Fault.NODE)
        elif self._done is None:
            say(f"{node} has left: {error}")
        self._changed.notify_all()

    def _tell(self, node: _Node) -> None:
        """Tell a node that the command of node 0 has ended, with its exit code and message."""
        assert self._done is not None
        node.link.send(self._done)
        self._told.add(node.rank)

    def _ask_to_stop(self, node: _Node) -> None:
        """Make the training save and end, because a node received a signal."""
        if not self._stop_asked:
            self._stop_asked = True
            say(f"{node} was asked to stop: a checkpoint is saved after the current iteration, and the training ends")
        try:
            write_text(self.paths.control / STOP_FILE, BY_SIGNAL)
        except BloomeryError as error:
            say(f"cannot ask the processes to stop: {error}")

    def _heed_stop(self) -> None:
        """Raise TryAgainError if somebody asked the training to stop. Remove the stop file."""
        stop = self.paths.control / STOP_FILE
        if not (self._stop_asked or stop.exists()):
            return
        stop.unlink(missing_ok=True)
        raise TryAgainError(
            "the training was asked to stop before the segment began",
            where=str(self.paths.train),
            expected="run the same command on all nodes again to resume",
        )

    def _end_processes(self) -> None:
        """Make the other nodes end their processes, and wait for the end, so that none of them writes any more."""
        end = time.monotonic() + _END_SECONDS
        with self._changed:
            self._running = False
            for node in self._nodes.values():
                if node.runs:
                    node.link.send(EndProcesses())
            while running := [node for node in self._nodes.values() if node.runs]:
                self._changed.wait(_POLL_SECONDS)
                if time.monotonic() > end:
                    break
            for node in running:
                say(f"{node} did not end its processes within {_END_SECONDS:g} s; the connection is closed")
                node.link.close()
                self._safe_at = time.monotonic() + self.place.silence_seconds

    def _missing_ranks(self) -> list[int]:
        """Return the ranks of the nodes that have not joined."""
        return [rank for rank in range(1, self.place.nodes) if rank not in self._nodes]

    def _missing(self) -> str:
        """Return the missing nodes in words, or an empty string."""
        ranks = self._missing_ranks()
        return f"node{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else ""
