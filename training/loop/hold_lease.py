"""One writer at a time: a lock in the training's folder, held by the launcher and released by the kernel.

The lock is a flock. Some cluster file systems keep it within one node, so the file also names the SLURM job of its
holder, and a job that the scheduler still runs is waited for as well.
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
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.contracts.lease import LEASE_NAME, LeaseHolder, parse_holder, render_holder

_SAY_EVERY_SECONDS = 30.0
_LOCK_SECONDS = 0.5
_JOB_SECONDS = 10.0


@contextlib.contextmanager
def lease(folder: Path) -> Iterator[None]:
    """Hold the training in `folder`; wait while another launcher does (an orphan of a killed workflow, say)."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / LEASE_NAME).open("a+")
    try:
        said = 0.0
        while (pause := _pause(handle)) > 0:
            if not said or time.monotonic() - said > _SAY_EVERY_SECONDS:
                said = time.monotonic()
                holder = _holder(handle)
                end = f" (to end it now: {holder.how_to_end}; it saves first)" if holder else ""
                say(f"{folder}: {holder or 'another process'} is training this run; waiting for it to end{end}")
            time.sleep(pause)
        _write(handle, render_holder(LeaseHolder(os.getpid(), socket.gethostname(), slurm.own_job())))
        yield
        _write(handle, "")
    finally:
        handle.close()


def _pause(handle: IO[str]) -> float:
    """Seconds until the lease is worth another try; 0 when it is ours."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _LOCK_SECONDS
    holder = _holder(handle)
    if holder is None or holder.job in (None, slurm.own_job()):
        return 0.0
    try:
        # A holder that left its name died, or its flock does not reach this node.
        if not slurm.is_alive(str(holder.job)):
            return 0.0
    except BloomeryError as error:
        say(f"the scheduler does not say whether job {holder.job} still runs: {error}")
    fcntl.flock(handle, fcntl.LOCK_UN)
    return _JOB_SECONDS


def _holder(handle: IO[str]) -> LeaseHolder | None:
    handle.seek(0)
    return parse_holder(handle.read())


def _write(handle: IO[str], text: str) -> None:
    handle.seek(0)
    handle.truncate()
    handle.write(text)
    handle.flush()
