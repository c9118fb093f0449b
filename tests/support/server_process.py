"""Start a server program of the tests once and use it over a connection. It ends when the connection closes."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path


class ServerProcess:
    """Start `program` with the file descriptor of a connection at its first use, and again if it has ended."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        atexit.register(self.stop)

    def connection(self, environment: Mapping[str, str] | None = None) -> Connection:
        """Return the client's end of the connection. `environment` applies only if the program is started now."""
        if self._running is None or self._running[0].poll() is not None:
            ours, theirs = socket.socketpair()
            command = [sys.executable, str(self._program), str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
            theirs.close()
            self._running = process, Connection(ours.detach())
        return self._running[1]

    def stop(self) -> None:
        """End the program if it runs."""
        if self._running is not None:
            process, connection = self._running
            self._running = None
            connection.close()
            process.wait(timeout=30)
