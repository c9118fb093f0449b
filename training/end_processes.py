"""End the processes of a segment on this machine when they cannot continue."""

from __future__ import annotations

import contextlib
import subprocess

_WAIT_SECONDS = 30.0


def end_processes(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill torchrun and its ranks, and wait up to 30 s for their end.

    SIGTERM would only ask the ranks to save, and a rank that waits for a lost node never does.
    """
    import psutil

    if process.poll() is not None:
        return
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        torchrun = psutil.Process(process.pid)
        torchrun.suspend()  # so that it starts no more ranks
        family = [*torchrun.children(recursive=True), torchrun]
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_WAIT_SECONDS)
    psutil.wait_procs(family, _WAIT_SECONDS)
