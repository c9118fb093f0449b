"""The messages between node 0 and the other nodes: one JSON document a line, over TCP.

Both sides prove that they see the same run folder. They read a random key from it and send its HMAC of the other
side's random text. So a node with another folder, or a program of the network that has no access to the folder, is
refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bloomery.base.atomic import explained
from bloomery.base.json_text import parse_json

KEY_FILE = ".nodes-key"
"""File in train/control with the key that only nodes with access to the run folder know."""
_LONGEST_BYTES = 65_536
"""Length of the longest message. A longer line ends the connection."""
_PROBES = 3


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Hello(_Message):
    """Node 0 greets a node that has connected."""

    kind: Literal["hello"] = "hello"
    challenge: str


class Join(_Message):
    """A node asks to take part."""

    kind: Literal["join"] = "join"
    proof: str
    """Proof that the node knows the key of the run folder."""
    challenge: str
    version: str
    host: str
    rank: int
    nodes: int
    ranks_per_node: int
    configuration: str
    """Digest of the training's configuration."""
    segment: int | None
    """Number of the only segment that the node trains. None for all segments to the end of the training."""


class Accepted(_Message):
    """Node 0 accepts a node."""

    kind: Literal["accepted"] = "accepted"
    proof: str


class Refused(_Message):
    """Node 0 refuses a node."""

    kind: Literal["refused"] = "refused"
    reason: str
    expected: str
    later: bool
    """Whether the node may succeed later with the same request."""


class Start(_Message):
    """Node 0 asks a node to start its processes of a segment."""

    kind: Literal["start"] = "start"
    number: int
    port: int
    """Port of node 0 for torchrun's rendezvous."""
    environment: dict[str, str] = {}
    """Environment variables that the processes of all nodes share."""


class Ended(_Message):
    """The processes of a node have ended."""

    kind: Literal["ended"] = "ended"
    code: int


class EndProcesses(_Message):
    """Node 0's own processes have ended, so a node must end its processes too, if they still run."""

    kind: Literal["end"] = "end"


class StopRequest(_Message):
    """A node was asked to stop. The whole training must save and end."""

    kind: Literal["stop"] = "stop"


class Done(_Message):
    """Node 0's command ends, so the command of the node ends with the same exit code."""

    kind: Literal["done"] = "done"
    exit_code: int
    message: str


Message = Hello | Join | Accepted | Refused | Start | Ended | EndProcesses | StopRequest | Done
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


class ConnectionLostError(Exception):
    """The other side has closed the connection, cannot be reached any more, or sent something else than messages."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.silent = silent
        """Whether the other side stopped answering. Its processes may then still run."""


class Link:
    """A connection to another node. One thread reads, and any thread may send."""

    def __init__(self, connection: socket.socket, silence_seconds: float) -> None:
        self._socket = connection
        self._rest = b""
        _notice_silence(connection, silence_seconds)

    @property
    def own_address(self) -> str:
        """IP address of this machine over which the connection runs."""
        address: str = self._socket.getsockname()[0]
        return address

    def fileno(self) -> int:
        """Return the descriptor, so that `select` can wait for a message."""
        return self._socket.fileno()

    def limit(self, seconds: float | None) -> None:
        """Let `receive` fail if nothing arrives for `seconds`. None removes the limit."""
        with suppress(OSError):  # Another thread may have closed the connection, which `receive` reports.
            self._socket.settimeout(seconds)

    def send(self, message: Message) -> None:
        """Send a message. Errors are ignored here, because `receive` notices that the connection is lost."""
        with suppress(OSError):
            self._socket.sendall(message.model_dump_json().encode() + b"\n")

    def receive(self) -> Message:
        """Wait for a message and return it.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        while b"\n" not in self._rest:
            if len(self._rest) > _LONGEST_BYTES:
                raise ConnectionLostError("it sent a line that is too long")
            try:
                new = self._socket.recv(4096)
            except OSError as error:
                silent = isinstance(error, TimeoutError) or not isinstance(error, ConnectionError)
                raise ConnectionLostError(error.strerror or str(error), silent=silent) from error
            if not new:
                raise ConnectionLostError("it closed the connection")
            self._rest += new
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return _MESSAGE.validate_python(parse_json(line))
        except (ValueError, ValidationError) as error:
            raise ConnectionLostError("it sent something that is not a message of Bloomery") from error

    @property
    def has_message(self) -> bool:
        """Whether `receive` returns a message that has already been read."""
        return b"\n" in self._rest

    def close(self) -> None:
        """Close the connection. A thread that waits in `receive` gets ConnectionLostError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _notice_silence(connection: socket.socket, seconds: float) -> None:
    """Let the kernel end the connection if the other machine's kernel does not answer for `seconds`."""
    interval = max(1, int(seconds / (_PROBES + 1)))
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", interval),
        ("TCP_KEEPINTVL", interval),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", int(seconds * 1000)),
    ):
        if hasattr(socket, name):  # macOS lacks these options. There, only torch's time limits detect a lost machine.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def make_key(control: Path) -> bytes:
    """Return the key of the run folder. Create it if it does not exist.

    Args:
        control: folder train/control of the run.
    """
    path = control / KEY_FILE
    with explained(path):
        control.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # The file gets its name only when it is complete. `link` fails if another process has created a key first.
            descriptor, temporary = tempfile.mkstemp(prefix=KEY_FILE, dir=control)
            with os.fdopen(descriptor, "w", encoding="ascii") as handle:
                handle.write(secrets.token_hex(32))
            with suppress(FileExistsError):
                os.link(temporary, path)
            os.unlink(temporary)  # noqa: PTH108
        return path.read_bytes()


def read_key(control: Path) -> bytes | None:
    """Return the key of the run folder. Return None if node 0 has not created it, or this machine cannot see it yet."""
    path = control / KEY_FILE
    with explained(path), suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def new_challenge() -> str:
    """Return a random text, for which the other side computes a proof."""
    return secrets.token_hex(32)


def proof(key: bytes, side: Literal["node", "master"], challenge: str) -> str:
    """Return the proof that one side knows the key. The two sides have different proofs, so none can be sent back."""
    return hmac.new(key, f"{side}:{challenge}".encode(), "sha256").hexdigest()


def proves(key: bytes, side: Literal["node", "master"], challenge: str, answer: str) -> bool:
    """Return whether `answer` is the proof of `side` for `challenge`."""
    return hmac.compare_digest(proof(key, side, challenge), answer)
