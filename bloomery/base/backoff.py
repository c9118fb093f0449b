"""Pauses between repeated attempts, so that many waiting processes do not all try again at the same time."""

from __future__ import annotations

import random
from collections.abc import Iterator

_JITTER = 0.5
"""Largest change of a pause by chance, as a share of the pause."""


def pauses(first_seconds: float, longest_seconds: float) -> Iterator[float]:
    """Yield pauses in seconds without end. Each pause is about twice as long as the last one, up to `longest_seconds`.

    Chance changes each pause by up to 50 % (jitter), so that a pause can be up to 1.5 times `longest_seconds`.
    """
    seconds = first_seconds
    while True:
        yield seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
        seconds = min(2 * seconds, longest_seconds)
