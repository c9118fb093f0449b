"""Select the most frequent weighted pieces, exactly and in bounded memory.

`find_cut` finds the smallest count to keep, and `above_cut` then selects the pieces. The cut is found with histograms
of `BINS` bins. One pass over the stream suffices for a small cut (below 65,535), which is usual for text. Otherwise,
each further pass makes the bins up to 2^16 times finer. Pieces whose count equals the cut are tied; the first of them
in byte order are kept.
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
    """Pieces that occur more than `count` times are kept, and the first `ties` pieces that occur exactly that often."""

    count: int
    ties: int


def find_cut(parts: Iterable[Part], pieces: int) -> Cut:
    """Return the cut that keeps `pieces` pieces, or all pieces if there are no more than that.

    `parts` is iterated once or a few times.
    """
    # The cut is in low..high. Each bin covers `step` counts, but the last bin has no upper end.
    low, high, step = 0, int(np.iinfo(np.int64).max), 1
    above = 0  # number of pieces that occur more than `high` times
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
    """Yield the pieces that `cut` keeps, in their original order."""
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
