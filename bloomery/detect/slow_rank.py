"""Detect a rank that repeatedly computes more slowly than other ranks with the same work.

One slow GPU slows down the whole training (BLOOM: by 5 %). The input is each rank's computing time in each iteration.
It must not include time spent waiting for other ranks, because then all ranks appear equally slow. The detector reads
no clock and no file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_SHARE = 0.9
"""Share of the window's iterations in which the same rank must be the slowest of its group."""


@dataclass(frozen=True)
class SlowRank:
    """Rank that was the slowest of its group in at least 90 % of a window's iterations."""

    iteration: int
    rank: int
    slower_by: float
    """Relative slowdown: the median of (time of the rank / median time of the other ranks in its group) - 1.

    Only iterations in which this rank was the slowest count.
    """
    window: int

    @property
    def message(self) -> str:
        """Message for the log."""
        return (
            f"rank {self.rank} computed {100 * self.slower_by:.0f} % longer than ranks with the same work in the "
            f"{self.window} iterations up to iteration {self.iteration}; all other ranks wait for it"
        )


class SlowRankDetector:
    """Detector of slow ranks. It compares only ranks with equal work, such as those of one pipeline stage."""

    def __init__(self, peers: Sequence[Sequence[int]], window: int = 50, margin: float = 0.1) -> None:
        """Prepare a detector.

        Args:
            peers: groups of ranks with equal work. A rank that is alone in its group is not compared.
            window: number of iterations on which a decision is based.
            margin: fraction by which a rank must be slower than the median of the other ranks in its group.
        """
        self._margin, self._window = margin, window
        # Maps each group to (slowest rank, its time / median time of the other ranks) for each of the last iterations.
        self._slowest: dict[tuple[int, ...], deque[tuple[int, float]]] = {
            tuple(group): deque(maxlen=window) for group in peers if len(group) > 1
        }

    def seen(self, iteration: int, seconds: Sequence[float]) -> SlowRank | None:
        """Add one iteration's seconds of each rank, and return the slow rank if one is found.

        The same slow rank is reported at most once in each window. If several groups have a slow rank, the one with the
        largest slowdown is returned.
        """
        found: list[SlowRank] = []
        for group, past in self._slowest.items():
            rank = max(group, key=lambda each: seconds[each])
            others = median(seconds[each] for each in group if each != rank)
            past.append((rank, seconds[rank] / others if others > 0 else 1.0))
            if len(past) < self._window:
                continue
            ratios = [ratio for slowest, ratio in past if slowest == rank]
            if len(ratios) >= _SHARE * self._window and (slower_by := median(ratios) - 1.0) >= self._margin:
                found.append(SlowRank(iteration, rank, slower_by, self._window))
                past.clear()
        return max(found, key=lambda each: each.slower_by, default=None)


def extremes(seconds: Sequence[float]) -> tuple[int, float, int, float]:
    """Return (fastest rank, its seconds, slowest rank, its seconds). Of equally fast ranks the first is chosen."""
    fastest = min(range(len(seconds)), key=seconds.__getitem__)
    slowest = max(range(len(seconds)), key=seconds.__getitem__)
    return fastest, seconds[fastest], slowest, seconds[slowest]
