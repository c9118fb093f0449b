"""One writer at a time: a lock in the training's folder, held by the launcher and released by the kernel."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.progress import say

_SAY_EVERY_SECONDS = 30.0


@contextlib.contextmanager
def lease(folder: Path) -> Iterator[None]:
    """Hold the training in `folder`; wait while another launcher does (an orphan of a killed workflow, say)."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lease").open("a+")
    try:
        said = 0.0
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - said > _SAY_EVERY_SECONDS or not said:
                    said = time.monotonic()
                    handle.seek(0)
                    say(
                        f"{folder}: process {handle.read().strip() or '?'} is training this run; waiting for it to end "
                        f"(to end it now: kill -TERM it; it saves first)"
                    )
                time.sleep(0.5)
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield
    finally:
        handle.close()
