"""Times that do not depend on what else the machine does: processor time, least of a few tries, no collector in it."""

import gc
import time
from collections.abc import Callable

_TRIES = 4


def processor_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call of ``work``, in seconds; without the garbage of what ran before it."""
    collects = gc.isenabled()
    gc.disable()
    start = time.process_time()
    try:
        work()
    finally:
        seconds = time.process_time() - start
        if collects:
            gc.enable()
    return seconds


def time_is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether ``work`` of ten times ``size`` takes nearer to ten times as long than to a hundred times.

    A machine that is slow for a moment can make it look quadratic, never linear: one try of a few must hold.
    """
    for _ in range(_TRIES):
        little = processor_seconds(lambda: work(size))
        much = processor_seconds(lambda: work(10 * size))
        if much < 40 * max(little, 0.002):
            return True
    return False


def is_faster_than(seconds: float, work: Callable[[], object]) -> bool:
    """Whether ``work`` takes less than so many seconds of wall clock; one try of a few must hold."""
    for _ in range(_TRIES):
        start = time.perf_counter()
        work()
        if time.perf_counter() - start < seconds:
            return True
    return False
