"""A program of the tests that is started once, asked over a connection, and ends when that closes."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path


class ServerProcess:
    """Starts `program` with the file descriptor of a connection when it is first asked, and again after its end."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        atexit.register(self.stop)

    def connection(self, environment: Mapping[str, str] | None = None) -> Connection:
        """Our end of the connection; `environment` is for a process that is started now."""
        if self._running is None or self._running[0].poll() is not None:
            ours, theirs = socket.socketpair()
            command = [sys.executable, str(self._program), str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
            theirs.close()
            self._running = process, Connection(ours.detach())
        return self._running[1]

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._running is not None:
            process, connection = self._running
            self._running = None
            connection.close()
            process.wait(timeout=30)
