"""Wait until a condition is true, instead of for a fixed time. Tests and their helpers poll only with this function."""

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
        condition: function that is polled. Its exceptions are not caught.
        seconds: time limit for the slowest machine, after which the wait fails.
        process: process that makes the condition true. The wait fails if the process ends first.
        every: seconds between two polls.

    Raises:
        AssertionError: the condition did not become true. The message has the output of a `process` that ended first.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        # The condition is polled once more after the end of the process, whose last step may have made it true.
        if process is not None and process.poll() is not None and not condition():
            said = process.communicate()[0] if process.stdout is not None else ""
            raise AssertionError(
                f"the process ended with {process.returncode} before the condition became true:\n{said}"
            )
        assert time.monotonic() < deadline, f"the condition did not become true within {seconds:g} s"
        time.sleep(every)
