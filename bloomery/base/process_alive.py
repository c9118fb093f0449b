"""Find out whether the process that wrote a file, such as a lock, still runs."""

from __future__ import annotations

import socket


def alive_since(pid: int, host: str, written: float) -> bool | None:
    """Return whether the process that wrote a file still runs. Return None if it is on another machine.

    Args:
        pid: process id that the file names.
        host: machine that the file names.
        written: time at which the file was written, in seconds of the Unix epoch.
    """
    import psutil

    if host != socket.gethostname():
        return None
    try:
        process = psutil.Process(pid)
        # If the process started after the file was written, another process with the same id wrote the file and has
        # ended.
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= written + 1.0)
    except psutil.Error:
        return False
