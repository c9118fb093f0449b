"""Wait for an event instead of for a time: the only place where tests and their support poll."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(
    condition: Callable[[], object],
    seconds: float = 60,
    process: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None,
    every: float = 0.02,
) -> None:
    """Return as soon as `condition()` is true.

    Args:
        condition: asked again and again; what it raises is raised.
        seconds: a limit for the slowest machine, after which the wait has failed.
        process: the process that makes the condition true; the wait has failed when it ends before.
        every: seconds between two questions.

    Raises:
        AssertionError: the condition did not come true, with the output of `process` where it ended before.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        # Asked after its end once more: it may have brought it about with its last step.
        if process is not None and process.poll() is not None and not condition():
            said = process.communicate()[0] if process.stdout is not None else ""
            raise AssertionError(f"the process ended with {process.returncode} before it happened:\n{said}")
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} s"
        time.sleep(every)
