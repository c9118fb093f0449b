"""Lock the syncs of a run, so that only one process syncs the run at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from bloomery.base.atomic import explained
from bloomery.base.errors import TryAgainError
from bloomery.contracts.paths import RunPaths

_LOCK_NAME = ".lock"
_POLL_SECONDS = 0.5


@contextlib.contextmanager
def sync_lock(paths: RunPaths, wait_seconds: float) -> Iterator[None]:
    """Hold the lock as the only process that syncs this run.

    The kernel releases the lock when its holder ends, even after `kill -9`.

    Raises:
        TryAgainError: another process holds the lock for longer than `wait_seconds`.
        ResourceError: the folder of the lock cannot be written.
    """
    path = paths.monitoring / _LOCK_NAME
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
                    raise TryAgainError(
                        "another process syncs this run",
                        where=str(paths.run),
                        expected="wait until that process ends, then sync again (or set --wait-seconds)",
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
