"""The other nodes' side of a training on several machines: join node 0, and run processes when node 0 asks for them.

A node may be started before node 0. If node 0 is lost, the node ends its processes and waits for node 0 to come back.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import bloomery
from bloomery.base.errors import BloomeryError, ConfigError, TryAgainError
from bloomery.base.progress import say
from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths
from training.loop.die_with_parent import die_with_parent
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
    Refused,
    Start,
    StopRequest,
    new_challenge,
    proof,
    proves,
    read_key,
)
from training.nodes.place import NodePlace
from training.processes.end_processes import end_processes
from training.processes.start_command import process_environment, rank_arguments
from training.processes.stop_signals import StopSignals

_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_HANDSHAKE_SECONDS = 10.0
_POLL_SECONDS = 0.2
_SAY_EVERY_SECONDS = 30.0
_ENDED_SECONDS = 60.0
"""Seconds without an answer of node 0, after which a node ends if the record of the end exists. Before that, a network
file system may still show an old state of the run."""
_GRACE_SECONDS = 10.0
"""Time for the node's processes to end by themselves after those of node 0 have ended."""


@dataclass(frozen=True)
class Follower:
    """A node other than node 0, with its settings."""

    place: NodePlace
    config: Path
    paths: RunPaths
    stage: TrainStage
    configuration: str
    """Digest of the training's configuration."""
    segment: int | None
    """Number of the only segment to train. None for all segments to the end of the training."""
    ended: Path
    """File that exists when nothing is left to do: the segment's file or train/finished.json."""

    @property
    def _master(self) -> str:
        return f"{self.place.master_address}, port {self.place.master_port}"

    def follow(self, stop: StopSignals) -> None:
        """Take part in the training until node 0 ends.

        Raises:
            TryAgainError: the training was stopped, or node 0 did not come within `wait_minutes`.
            ConfigError: node 0 refuses this node.
            BloomeryError: node 0 ended with this error. The exit code is that of node 0.
        """
        while True:
            link = self._connect(stop)
            if link is None:
                say(f"node 0 does not answer, and nothing is left to do, because {self.ended} exists")
                return
            try:
                done = self._serve(link, stop)
            except ConnectionLostError as error:
                say(f"node 0 is lost: {error}; waiting for it to come back")
                continue
            finally:
                link.close()
            if done.exit_code == 0:
                say(done.message)
                return
            failed = BloomeryError(done.message, where="node 0")
            failed.exit_code = done.exit_code
            raise failed

    def _connect(self, stop: StopSignals) -> Link | None:
        """Join node 0. Return None if node 0 does not answer and the record of the end exists."""
        began = said = time.monotonic()
        reason = ""
        while True:
            if stop.asked:
                raise TryAgainError(
                    "this node was asked to stop while it waited for node 0",
                    where=self._master,
                    expected="run the same command again to take part",
                )
            try:
                return self._join()
            except (OSError, ConnectionLostError) as error:
                reason = getattr(error, "strerror", None) or str(error)
            now = time.monotonic()
            if now - began > _ENDED_SECONDS and self._has_ended():
                return None
            if now - began > 60 * self.place.wait_minutes:
                raise TryAgainError(
                    f"cannot join node 0 within {self.place.wait_minutes:g} minutes ({reason})",
                    where=self._master,
                    expected="the same command with --node-rank 0 on the machine of --master-address, and a network in "
                    "which the nodes reach all ports of each other",
                )
            if said == began or now - said > _SAY_EVERY_SECONDS:
                said = now
                say(f"waiting for node 0 at {self._master} ({reason})")
            time.sleep(_RETRY_SECONDS)

    def _has_ended(self) -> bool:
        """Return whether the record of the end exists and is newer than the configuration."""
        with contextlib.suppress(OSError):
            return self.ended.stat().st_mtime > self.config.stat().st_mtime
        return False

    def _join(self) -> Link:
        """Connect to node 0 and join.

        Raises:
            OSError, ConnectionLostError: a later try may succeed.
            ConfigError: node 0 refuses this node.
        """
        # The name is resolved at each try, because a node 0 that was replaced may have another address.
        address = (self.place.master_address, self.place.master_port)
        link = Link(socket.create_connection(address, timeout=_CONNECT_SECONDS), self.place.silence_seconds)
        try:
            link.limit(_HANDSHAKE_SECONDS)
            hello, key = link.receive(), read_key(self.paths.control)
            if not isinstance(hello, Hello):
                raise ConnectionLostError("another program uses the port")
            if key is None:
                raise ConnectionLostError(f"{self.paths.control} does not hold the key of node 0 yet")
            challenge = new_challenge()
            link.send(
                Join(
                    proof=proof(key, "node", hello.challenge),
                    challenge=challenge,
                    version=bloomery.__version__,
                    host=socket.gethostname(),
                    rank=self.place.rank,
                    nodes=self.place.nodes,
                    ranks_per_node=self.place.ranks_per_node,
                    configuration=self.configuration,
                    segment=self.segment,
                )
            )
            answer = link.receive()
            if isinstance(answer, Refused):
                if answer.later:
                    raise ConnectionLostError(answer.reason)
                raise ConfigError(answer.reason, where="node 0", expected=answer.expected)
            if not isinstance(answer, Accepted) or not proves(key, "master", challenge, answer.proof):
                raise ConnectionLostError("another program uses the port, or it sees another run folder")
            link.limit(None)
        except BaseException:
            link.close()
            raise
        say(f"node {self.place.rank} has joined node 0 at {self._master}")
        return link

    def _serve(self, link: Link, stop: StopSignals) -> Done:
        """Do what node 0 requests until its command ends. If the connection ends, kill the processes of this node.

        Raises:
            ConnectionLostError: node 0 is lost.
        """
        process: subprocess.Popen[bytes] | None = None
        end_at: float | None = None
        told = False
        try:
            while True:
                if link.has_message or select.select([link], [], [], _POLL_SECONDS)[0]:
                    message = link.receive()
                    if isinstance(message, Start) and process is None:
                        process, end_at = self._start(message, link), None
                    elif isinstance(message, EndProcesses):
                        end_at = time.monotonic() + _GRACE_SECONDS
                    elif isinstance(message, Done):
                        return message
                if stop.asked and not told:
                    told = True
                    say("asked to stop: node 0 saves a checkpoint after the current iteration and ends the training")
                    link.send(StopRequest())
                if process is not None and end_at is not None and time.monotonic() > end_at:
                    end_processes(process)
                if process is not None and (code := process.poll()) is not None:
                    process = None
                    link.send(Ended(code=code))
        finally:
            if process is not None and process.poll() is None:
                end_processes(process)

    def _start(self, message: Start, link: Link) -> subprocess.Popen[bytes]:
        """Start this node's processes of a segment. Their output appears on stderr."""
        say(f"node {self.place.rank} starts {self.place.ranks_per_node} processes of segment {message.number}")
        arguments = rank_arguments(self.config, self.paths.run, message.number)
        return subprocess.Popen(
            self.place.torchrun(message.port, arguments),
            env={
                **process_environment(self.stage.training),
                **gloo_environment(link.own_address),
                **message.environment,
            },
            # In a new session, the processes do not receive a Ctrl-C from the terminal. Node 0 asks them to stop.
            start_new_session=True,
            preexec_fn=die_with_parent,
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
        )
