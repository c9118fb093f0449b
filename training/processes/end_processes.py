"""End the processes of a segment on this machine when they cannot continue."""

from __future__ import annotations

import contextlib
import subprocess

import psutil

_WAIT_SECONDS = 30.0


def end_processes(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill torchrun and its ranks, and wait up to 30 s for their end.

    SIGTERM would only ask the ranks to save, and a rank that waits for a lost node never does.
    """
    if process.poll() is not None:
        return
    with contextlib.suppress(psutil.Error):
        psutil.Process(process.pid).suspend()  # so that it starts no more ranks
    children = kill_children(process.pid)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_WAIT_SECONDS)
    psutil.wait_procs(children, _WAIT_SECONDS)


def kill_children(pid: int) -> list[psutil.Process]:
    """Kill all descendants of a process, also stopped ones. Return them."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(pid).children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    return children
