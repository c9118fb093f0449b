"""Find a training that is slow or makes no progress: a low speed, a slow rank, or no new iteration."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING

from bloomery.base.units import format_seconds
from bloomery.detect.finding import Finding, Kind, Severity

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import MetricsRecord

_BLOCK = 64
"""Number of iterations in a block. The speed of a block is the median of its iterations."""
_BLOCKS = 64
"""Number of earlier blocks among which the best speed is searched."""
_WINDOW = 50
"""Number of iterations in which the slowest ranks are counted."""
_SHARE = 0.9
"""Share of the window in which one rank must be the slowest."""
_STALL_FACTOR = 10.0
"""A training that completes no iteration for this many times its usual iteration may hang."""


class SlowTraining:
    """Detector of a speed that is lower than the training's own best speed with the same batch and sequence length.

    Speeds are medians over 64 iterations, so single slow iterations do not count. The speed is that of the last 64
    iterations. The best speed is searched in at most 64 earlier blocks.
    """

    def __init__(self, slower_by: float) -> None:
        """Prepare a detector. The speed is reported if it is below the best speed by the share `slower_by`."""
        self._slower_by = slower_by
        self._work: tuple[int, int | None] | None = None
        self._recent: deque[float] = deque(maxlen=_BLOCK)
        self._best: deque[float] = deque(maxlen=_BLOCKS)
        self._count = 0
        self._iteration = 0

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        work = (record.global_batch_size, record.sequence_length)
        if work != self._work:
            # A larger batch or a longer sequence changes the speed.
            self._work, self._count = work, 0
            self._recent.clear()
            self._best.clear()
        self._iteration = record.iteration
        self._recent.append(record.tokens_per_second)
        self._count += 1
        if self._count % _BLOCK == 0:
            self._best.append(median(self._recent))

    def finding(self) -> Finding | None:
        """Return a finding if the training is slow now."""
        if not self._best or len(self._recent) < _BLOCK:
            return None
        best, now = max(self._best), median(self._recent)
        if now > (1 - self._slower_by) * best:
            return None
        what = (
            f"The training computes {now:,.0f} tokens/s, {100 * (1 - now / best):.0f} % less than its best speed of "
            f"{best:,.0f} tokens/s (median of the last {_BLOCK} iterations, up to iteration {self._iteration})."
        )
        return Finding(Kind.THROUGHPUT, Severity.WARNING, what)


class SlowestRank:
    """Detector of a rank that became slower than the others.

    The ranks of a training need not have equal work. So the ratio of the slowest rank's time to the fastest rank's time
    is compared with the lowest median of this ratio over 50 iterations.
    """

    def __init__(self, slower_by: float) -> None:
        """Prepare a detector. A rank is reported if the ratio of times has grown by the fraction `slower_by`."""
        self._slower_by = slower_by
        self._slowest: deque[tuple[int, float]] = deque(maxlen=_WINDOW)
        self._least: deque[float] = deque(maxlen=_BLOCKS)
        self._count = 0
        self._iteration = 0

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        if record.slowest_rank is None or not record.slowest_seconds or not record.fastest_seconds:
            return
        self._iteration = record.iteration
        self._slowest.append((record.slowest_rank, record.slowest_seconds / record.fastest_seconds))
        self._count += 1
        if self._count % _WINDOW == 0:
            self._least.append(median(ratio for _, ratio in self._slowest))

    def finding(self) -> Finding | None:
        """Return a finding if one rank is slow now."""
        if len(self._slowest) < _WINDOW or not self._least:
            return None
        ranks = [rank for rank, _ in self._slowest]
        rank = max(set(ranks), key=ranks.count)
        now = median(ratio for _, ratio in self._slowest)
        growth = now / min(self._least) - 1
        if ranks.count(rank) < _SHARE * _WINDOW or growth < self._slower_by:
            return None
        what = (
            f"Rank {rank} was the slowest one in {ranks.count(rank)} of the {_WINDOW} iterations up to iteration "
            f"{self._iteration}. Compared with the fastest rank, it computes {100 * growth:.0f} % longer than before. "
            "All other ranks wait for it."
        )
        return Finding(Kind.SLOW_RANK, Severity.WARNING, what, rank=rank)


def stall(iteration: int, quiet_seconds: float, usual_seconds: float, stall_minutes: float) -> Finding | None:
    """Return a finding if a running training has completed no iteration for too long.

    Args:
        iteration: last completed iteration.
        quiet_seconds: time since the last iteration ended, or since the training started if that was later.
        usual_seconds: usual duration of an iteration; 0 if it is unknown.
        stall_minutes: limit after which the training is reported, in minutes.
    """
    if quiet_seconds <= max(60 * stall_minutes, _STALL_FACTOR * usual_seconds):
        return None
    usual = f" A usual iteration takes {format_seconds(usual_seconds)}." if usual_seconds else ""
    what = (
        f"The training runs, but has completed no iteration for {format_seconds(quiet_seconds)}. The last one was "
        f"iteration {iteration}.{usual}"
    )
    return Finding(Kind.STALL, Severity.CRITICAL, what)
