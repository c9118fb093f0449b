"""End the processes of a segment on this machine."""

from __future__ import annotations

import subprocess

_TERM_SECONDS = 30.0


def end_processes(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End torchrun and its ranks, and wait for the end of torchrun.

    SIGTERM lets torchrun end its ranks. After 30 s, SIGKILL ends torchrun, and the kernel ends the ranks with it
    (`training.loop.die_with_parent`).
    """
    process.terminate()
    try:
        process.wait(_TERM_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
