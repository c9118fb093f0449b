"""Measure times on a busy machine: with processor time, with several tries, and without garbage collection."""

import gc
import time
from collections.abc import Callable

_TRIES = 4


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of one call of ``work`` in seconds, without garbage collection."""
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
    """Return whether the time of ``work`` grows linearly, not quadratically, with the size.

    With ten times the size, linear work takes about 10 times as long, and quadratic work 100 times. The limit is 40
    times. A slow moment of the machine can make linear work look quadratic, so one good try of a few is enough.
    """
    for _ in range(_TRIES):
        little = processor_seconds(lambda: work(size))
        much = processor_seconds(lambda: work(10 * size))
        if much < 40 * max(little, 0.002):
            return True
    return False


def is_faster_than(seconds: float, work: Callable[[], object]) -> bool:
    """Return whether ``work`` takes less than ``seconds`` of wall-clock time in at least one of a few tries."""
    for _ in range(_TRIES):
        start = time.perf_counter()
        work()
        if time.perf_counter() - start < seconds:
            return True
    return False
