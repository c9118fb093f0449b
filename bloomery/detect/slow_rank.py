"""A rank that computes slower than those with the same work, again and again: one slow GPU brakes all (BLOOM: 5 %).

Pure: time that each rank computed in, iteration by iteration; waiting for others must not be in it, for then all are
equally slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_SHARE = 0.9
"""Of the window's iterations in which the same rank must be the slowest of its peers."""


@dataclass(frozen=True)
class SlowRank:
    """The same rank was the slowest of its peers over a window."""

    iteration: int
    rank: int
    slower_by: float
    """Median over the window of its time over its peers' median time, minus 1."""
    window: int

    @property
    def message(self) -> str:
        """In words."""
        return (
            f"rank {self.rank} computes {100 * self.slower_by:.0f} % longer than those with the same work, over the "
            f"{self.window} iterations up to {self.iteration}: all wait for it"
        )


class SlowRankDetector:
    """Compares the ranks of each pipeline stage: only they have equal work."""

    def __init__(self, peers: Sequence[Sequence[int]], window: int = 50, margin: float = 0.1) -> None:
        """Prepare a detector.

        Args:
            peers: groups of ranks with equal work; one that is alone has none to compare with.
            window: iterations that must agree.
            margin: share of its peers' time by which a rank must be slower.
        """
        self._margin, self._window = margin, window
        # (slowest rank, its time over its peers') of the last iterations, for each group.
        self._slowest: dict[tuple[int, ...], deque[tuple[int, float]]] = {
            tuple(group): deque(maxlen=window) for group in peers if len(group) > 1
        }

    def seen(self, iteration: int, seconds: Sequence[float]) -> SlowRank | None:
        """Take in the seconds of each rank. A slow rank is told once a window; of several the slowest."""
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
    """(fastest rank, its seconds, slowest rank, its seconds); of equal ones the first."""
    fastest = min(range(len(seconds)), key=seconds.__getitem__)
    slowest = max(range(len(seconds)), key=seconds.__getitem__)
    return fastest, seconds[fastest], slowest, seconds[slowest]
