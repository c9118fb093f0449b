"""Time an action on a GPU or a CPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

ROUNDS = 10


def median_seconds(action: Callable[[], object], *, cuda: bool) -> float:
    """Return the median seconds of an action. `cuda`: whether it runs on a GPU, which is waited for."""
    import torch

    taken = []
    for number in range(ROUNDS + 2):
        if cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        action()
        if cuda:
            torch.cuda.synchronize()
        if number >= 2:
            taken.append(time.perf_counter() - started)
    return statistics.median(taken)
