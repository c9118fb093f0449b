"""A verb ends when the workflow that started it is gone.

Between a workflow and its verb stands a shell that survives the workflow's `kill -9`, so the kernel's parent-death
signal does not reach the verb. Without this, the next workflow would meet a second writer that nobody watches. A
workflow on this machine names itself in BLOOMERY_PARENT; jobs of a cluster outlive theirs on purpose and carry no name.
"""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT_VARIABLE = "BLOOMERY_PARENT"
_POLL_SECONDS = 1.0


def follow_parent() -> None:
    """When BLOOMERY_PARENT names a process, end this one (SIGTERM) once that process is gone."""
    pid = os.environ.get(PARENT_VARIABLE, "")
    if pid.isdigit():
        threading.Thread(target=_watch, args=(int(pid),), name="follow-parent", daemon=True).start()


def _watch(pid: int) -> None:
    import psutil

    try:
        process = psutil.Process(pid)
        # is_running() compares start times, so a process id that was given to another process does not count; a
        # zombie is a dead process that nobody has waited for.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_POLL_SECONDS)
    except psutil.NoSuchProcess:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
