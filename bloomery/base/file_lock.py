"""Lock a file, so that only one process at a time performs a task on a run, such as a sync."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import TryAgainError

_POLL_SECONDS = 0.1


@contextlib.contextmanager
def file_lock(path: Path, wait_seconds: float, busy: TryAgainError) -> Iterator[None]:
    """Hold the lock on the file `path`. The file is never removed, so that all processes lock the same file.

    The kernel releases the lock when its holder ends, even after `kill -9`.

    Raises:
        TryAgainError: the error `busy`. Another process held the lock for longer than `wait_seconds`.
        ResourceError: the folder of the lock cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise busy from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
