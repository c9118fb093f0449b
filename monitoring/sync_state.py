"""monitoring/sync.json: how far the logs are on the Hub. Beside it a lock: one process syncs a run at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import explained, read_json, write_json
from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths

STATE_NAME = "sync.json"
_LOCK_NAME = ".lock"
_POLL_SECONDS = 0.5


class SyncState(BaseModel):
    """What the last successful sync left on the Hub, and what went wrong since."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = None
    repository: str | None = None
    """`owner/name`; None: nothing was ever synced."""
    commit: str | None = None
    """Holds exactly `files`, besides what others put there."""
    synced: str | None = None
    """When the last successful sync ended: UTC, ISO 8601."""
    finished: bool = False
    """Whether the training had ended before that sync began."""
    files: dict[str, int] = {}
    """Path in the repository -> bytes."""
    failures: int = 0
    """Failures in a row since."""
    failed: str | None = None
    """When the last of them was: UTC, ISO 8601."""
    error: str | None = None
    """What it said, without the token."""

    def failing(self, error: str) -> SyncState:
        """This state after one more failure."""
        return self.model_copy(update={"failures": self.failures + 1, "failed": utc_now(), "error": error})


def read_state(paths: RunPaths) -> SyncState:
    """The state; an empty one before the first sync. A damaged one is as good as none: the Hub is asked anew."""
    try:
        return SyncState.model_validate(read_json(paths.monitoring / STATE_NAME))
    except (InputError, ValidationError):
        return SyncState()


def write_state(paths: RunPaths, state: SyncState) -> None:
    """Write the state atomically. Raises ResourceError."""
    write_json(paths.monitoring / STATE_NAME, state.model_dump(mode="json"))


@contextlib.contextmanager
def sync_lock(paths: RunPaths, wait_seconds: float) -> Iterator[None]:
    """Be the only process that syncs this run.

    The kernel releases the lock however its holder dies. Raises TryAgainError when another one holds it for longer
    than `wait_seconds`, ResourceError when the folder cannot be written.
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
                        "another process syncs this run", where=str(paths.run), expected="let it end; then sync again"
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
