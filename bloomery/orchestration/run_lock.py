"""One workflow a run: an advisory lock on `runs/<name>/.lock`, which the kernel releases however its holder dies.

Snakemake's own lock is a file that survives `kill -9` and then asks for `--unlock`; the profiles switch it off.
The lock is a flock, so the run's folder must lie on a file system that has it (Lustre: mount option `flock`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import TryAgainError

LOCK_NAME = ".lock"


@dataclass(frozen=True)
class LockHolder:
    """Who holds a run."""

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
        """Take the lock of `run`, or raise TryAgainError that names the holder.

        The descriptor is not inherited by programs that this process starts (PEP 446): a job that outlives a killed
        workflow does not keep the run locked.
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
                expected="let it end, or stop it; then start again",
            ) from error
        who = {"pid": os.getpid(), "host": socket.gethostname(), "command": " ".join(sys.argv)}
        with explained(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, (json.dumps(who, ensure_ascii=False) + "\n").encode(), 0)
        return cls(descriptor, path)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)


def holder(run: Path) -> LockHolder | None:
    """Who last took the lock of `run`, as far as its file says."""
    try:
        value = json.loads((run / LOCK_NAME).read_text(encoding="utf-8"))
        return LockHolder(int(value["pid"]), str(value["host"]), str(value["command"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
