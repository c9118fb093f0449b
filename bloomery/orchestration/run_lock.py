"""Allow one workflow per run, by an advisory lock on `runs/<name>/.lock`.

The kernel releases the lock when its holder ends, even after `kill -9`. Snakemake's own lock is a file that survives
`kill -9` and then needs `--unlock`, so the profiles switch it off. The lock is a flock, so the file system of the run's
folder must support flock (Lustre: mount option `flock`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import TryAgainError
from bloomery.base.json_text import parse_json
from bloomery.base.typed_command import typed_command

LOCK_NAME = ".lock"


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a run's lock."""

    pid: int
    host: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}: {self.command}"


class RunLock:
    """The lock of one run, held until the process ends or `release` is called."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    def acquire(cls, run: Path) -> RunLock:
        """Take the lock of `run`.

        Programs that this process starts do not inherit the descriptor (PEP 446), so a job that outlives a killed
        workflow does not keep the run locked.

        Raises:
            TryAgainError: another process holds the lock; the error names it.
            ResourceError: the lock file cannot be written.
        """
        path = run / LOCK_NAME
        with explained(path):
            run.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise TryAgainError(
                f"another workflow works on this run ({holder(run) or 'unknown process'})",
                where=str(run),
                expected="wait until that workflow ends, or stop it; then start this one again",
            ) from error
        who = {"pid": os.getpid(), "host": socket.gethostname(), "command": typed_command()}
        with explained(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, (json.dumps(who, ensure_ascii=False) + "\n").encode(), 0)
        return cls(descriptor, path)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def is_locked(run: Path) -> bool:
    """Return whether a process holds the lock of `run`. The file system must support flock across machines."""
    try:
        descriptor = os.open(run / LOCK_NAME, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(run: Path) -> LockHolder | None:
    """Return the process that last took the lock of `run`; None if the lock file is missing or damaged."""
    try:
        value = parse_json((run / LOCK_NAME).read_bytes())
        pid = int(value["pid"])
        return LockHolder(pid, str(value["host"]), str(value["command"])) if 0 < pid < 2**31 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
