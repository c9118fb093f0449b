"""The most frequent of the weighted pieces, exactly and in bounded memory: the cut is found, then rows are chosen.

The cut is the least count that is kept. It is found by histograms of `BINS` bins: one reading of the stream where the
cut is small, as it is for text; each further one, where it is not, makes the bins 2^16 times finer. Of the pieces that
have just this count the first are kept, in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from data_prep.tokenizer.weigh_counts import Integers

BINS = 1 << 16

Part = tuple[pa.Array, Integers]


@dataclass(frozen=True)
class Cut:
    """Pieces that occur more than `count` times are kept, and the first `ties` of those that occur as often."""

    count: int
    ties: int


def find_cut(parts: Iterable[Part], pieces: int) -> Cut:
    """Where to cut so that `pieces` are kept; all are if there are no more. `parts` is read once or a few times."""
    low, high, step = 0, int(np.iinfo(np.int64).max), 1  # the cut lies in low..high; bins of `step`, the last one open
    above = 0  # pieces that occur more than `high` times
    while True:
        bins, most = np.zeros(BINS, np.int64), 0
        for _, counts in parts:
            most = max(most, int(counts.max(initial=0)))
            inside = counts[(counts >= low) & (counts <= high)]
            bins += np.bincount(np.minimum((inside - low) // step, BINS - 1), minlength=BINS)
        from_top = above + np.cumsum(bins[::-1])[::-1]
        if low == 0 and from_top[0] <= pieces:
            return Cut(0, 0)
        chosen = int(np.flatnonzero(from_top >= pieces)[-1])
        above = int(from_top[chosen] - bins[chosen])
        low += chosen * step
        high = min(high, low + step - 1 if chosen < BINS - 1 else most)
        if low == high:
            return Cut(low, pieces - above)
        step = -(-(high - low + 1) // BINS)


def above_cut(parts: Iterable[Part], cut: Cut) -> Iterator[Part]:
    """The pieces that are kept, in their order."""
    ties = cut.ties
    for pieces, counts in parts:
        kept = counts > cut.count
        tied = np.flatnonzero(counts == cut.count)[:ties]
        kept[tied] = True
        ties -= len(tied)
        if kept.all():
            yield pieces, counts
        elif kept.any():
            yield pieces.filter(pa.array(kept)), counts[kept]
