"""Wait until the disk of a run has space again. Training can then resume without a command."""

from __future__ import annotations

import contextlib
import os
import time

from bloomery.base.errors import TryAgainError
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE
from training.preflight.disk import disk_state

RECORD_BYTES = 1 << 20
"""Bytes that are more than enough for the records of a segment."""
_POLL_SECONDS = 2.0
_SAY_EVERY_SECONDS = 300.0


def wait_for_space(paths: RunPaths, needed_bytes: int) -> None:
    """Return as soon as the disk of the run has `needed_bytes` of free space.

    A quota that is used up counts as a full disk. A folder that cannot be written for another reason is not waited for,
    because the training reports that error.

    Raises:
        TryAgainError: a person asked the training to stop.
    """
    said: float | None = None
    while (free := _free_bytes(paths)) < needed_bytes:
        if (paths.control / STOP_FILE).exists():
            raise TryAgainError(
                "the training was asked to stop while it waited for disk space",
                where=str(paths.run),
                expected="free disk space; then run the same command again to resume",
            )
        if said is None or time.monotonic() - said > _SAY_EVERY_SECONDS:
            said = time.monotonic()
            say(
                f"{paths.run}: the disk is full: {format_bytes(free)} are free, but {format_bytes(needed_bytes)} are "
                "needed; waiting until space is freed"
            )
        time.sleep(_POLL_SECONDS)


def _free_bytes(paths: RunPaths) -> int:
    """Return the free space on the disk of the run; 0 if not even a small file fits."""
    with contextlib.suppress(OSError):
        return disk_state(paths.train, f".space-{os.getpid()}", RECORD_BYTES).free_bytes
    return RECORD_BYTES
