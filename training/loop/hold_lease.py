"""Hold the training's lease, so that only one launcher writes to a run. If the launcher dies, the kernel releases it.

The lease is a file locked by flock. On some cluster file systems a flock is visible on one node only. So the file also
names the SLURM job of its holder, and the lease counts as held while the scheduler runs that job.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bloomery.base import slurm
from bloomery.base.atomic import explained
from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.progress import say
from bloomery.contracts.lease import LEASE_NAME, LeaseHolder, parse_holder, render_holder

_SAY_EVERY_SECONDS = 30.0
_LOCK_SECONDS = 0.5
_JOB_SECONDS = 10.0


@contextlib.contextmanager
def lease(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lease of the training in `folder`.

    With `wait`, wait while another launcher holds the lease, such as one left over from a killed workflow.

    Raises:
        TryAgainError: another launcher holds the lease, and `wait` is false.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / LEASE_NAME).open("a+")
    try:
        said = 0.0
        while (pause := _pause(handle)) > 0:
            if not wait:
                raise TryAgainError(
                    f"{_holder(handle) or 'another process'} is training this run",
                    where=str(folder),
                    expected="no other training of this run; wait until it ends or stop it, and run the command again",
                )
            if not said or time.monotonic() - said > _SAY_EVERY_SECONDS:
                said = time.monotonic()
                holder = _holder(handle)
                end = f" (to save a checkpoint and end it now, run: {holder.how_to_end})" if holder else ""
                say(f"{folder}: {holder or 'another process'} is training this run; waiting for it to end{end}")
            time.sleep(pause)
        _write(handle, render_holder(LeaseHolder(os.getpid(), socket.gethostname(), slurm.own_job())))
        yield
        _write(handle, "")
    finally:
        handle.close()


def _pause(handle: IO[str]) -> float:
    """Try to take the lease. Return 0 if this process holds it now, or the seconds to wait until the next try."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _LOCK_SECONDS
    holder = _holder(handle)
    if holder is None or holder.job in (None, slurm.own_job()):
        return 0.0
    try:
        # The file still names a holder. Either that holder died, or its flock is not visible on this node.
        if not slurm.is_alive(str(holder.job)):
            return 0.0
    except BloomeryError as error:
        say(
            f"cannot ask the scheduler whether job {holder.job} is still training this run ({error}); trying again "
            "before the training starts"
        )
    fcntl.flock(handle, fcntl.LOCK_UN)
    return _JOB_SECONDS


def _holder(handle: IO[str]) -> LeaseHolder | None:
    """Return the holder that the lease file names, if any."""
    handle.seek(0)
    return parse_holder(handle.read())


def _write(handle: IO[str], text: str) -> None:
    """Replace the content of the lease file."""
    handle.seek(0)
    handle.truncate()
    handle.write(text)
    handle.flush()
