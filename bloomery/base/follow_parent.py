"""End a verb when the workflow that started it is gone.

A shell runs between a workflow and its verb. The shell survives a `kill -9` of the workflow, so the kernel's
parent-death signal does not reach the verb. The verb would keep writing while the next workflow starts. A workflow on
this machine states its process id in BLOOMERY_PARENT. Jobs of a cluster may outlive their workflow, so the variable is
not set for them.
"""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT_VARIABLE = "BLOOMERY_PARENT"
_POLL_SECONDS = 1.0


def follow_parent() -> None:
    """If BLOOMERY_PARENT names a process, send SIGTERM to this process when that process ends."""
    pid = os.environ.get(PARENT_VARIABLE, "")
    if pid.isdigit():
        threading.Thread(target=_watch, args=(int(pid),), name="follow-parent", daemon=True).start()


def _watch(pid: int) -> None:
    import psutil

    try:
        process = psutil.Process(pid)
        # is_running() compares start times, so a process id that was reused for another process does not count. A
        # zombie is a dead process whose parent has not waited for it.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_POLL_SECONDS)
    except psutil.NoSuchProcess:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
