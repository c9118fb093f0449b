"""Compute which samples a step reads if ranges of samples are skipped. Training, `plan` and `trace` share these
functions.

Positions count skipped samples too: `consumed_samples` is a position in the index's order, including every sample that
was skipped before it. Schedules and the batch ramp-up therefore advance over a gap, and a range that is added later
does not move any earlier sample.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training_loop import SkipRange


@dataclass(frozen=True)
class Batch:
    """Samples of one step, in ascending order."""

    spans: tuple[range, ...]
    """Ranges of samples. No range is empty, and no two ranges touch."""
    end: int
    """Value of consumed_samples after the step, which is the position after the step's last sample.

    If skipped samples follow immediately, they belong to the next step.
    """

    @property
    def samples(self) -> list[int]:
        """Every sample, in the order in which the replicas divide them."""
        return list(chain.from_iterable(self.spans))

    @property
    def skipped_samples(self) -> int:
        """Number of skipped samples between the first and the last sample of the step."""
        return self.end - self.spans[0].start - sum(map(len, self.spans))


def next_batch(skip: Sequence[SkipRange], consumed_samples: int, size: int) -> Batch:
    """Return the next `size` samples from position `consumed_samples` that no range of `skip` contains."""
    spans, position, left = [], consumed_samples, size
    holes = _holes(tuple(skip))
    for hole in holes[bisect_right(holes, position, key=_end) :]:
        if position < hole.start:
            span = range(position, min(hole.start, position + left))
            spans.append(span)
            position, left = span.stop, left - len(span)
        if not left:
            return Batch(tuple(spans), position)
        position = hole.stop
    return Batch((*spans, range(position, position + left)), position + left)


def batch_before(skip: Sequence[SkipRange], consumed_samples: int, size: int) -> Batch:
    """Return the last `size` samples before position `consumed_samples` that no range of `skip` contains."""
    spans: list[range] = []
    position, left = consumed_samples, size
    for hole in reversed(_holes(tuple(skip))):
        if hole.start < position and left:
            span = range(max(min(hole.stop, position), position - left), position)
            spans[:0] = [span] if span else []
            position, left = hole.start if len(span) < left else span.start, left - len(span)
    if left:
        spans[:0] = [range(position - left, position)]
    return Batch(tuple(spans), consumed_samples)


def skipped_before(skip: Sequence[SkipRange], consumed_samples: int) -> int:
    """Return the number of samples before position `consumed_samples` that ranges of `skip` contain."""
    return sum(len(range(hole.start, min(hole.stop, consumed_samples))) for hole in _holes(tuple(skip)))


def plain_until(skip: Sequence[SkipRange], consumed_samples: int) -> int | None:
    """Return the first skipped sample at or after position `consumed_samples`; None if no later
    sample is skipped."""
    holes = _holes(tuple(skip))
    after = bisect_right(holes, consumed_samples, key=_end)
    return max(consumed_samples, holes[after].start) if after < len(holes) else None


def _end(hole: range) -> int:
    return hole.stop


@lru_cache(maxsize=16)
def _holes(skip: tuple[SkipRange, ...]) -> tuple[range, ...]:
    """Return the ranges in order. Ranges that touch or overlap are merged."""
    found: list[range] = []
    for each in sorted(skip, key=lambda each: each.from_sample):
        if found and each.from_sample <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.to_sample))
        else:
            found.append(range(each.from_sample, each.to_sample))
    return tuple(found)
