"""Curves that fit on a page: a long run is drawn by the mean and the range of equal pieces of its iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A curve of few points; float64 [points] each. Where nothing was merged, low = mean = high."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats

    @property
    def merged(self) -> bool:
        """Whether a point stands for several iterations."""
        return bool(np.any(self.low != self.high))


def reduce(x: Sequence[float], y: Sequence[float], points: int = 800) -> Curve:
    """Merge a curve into at most `points` points: last x, mean, least and greatest y of each piece.

    Values that are not finite (a loss that diverged) take no part, unless a piece has no other.
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    edges = np.unique(np.linspace(0, len(xs), min(points, len(xs)) + 1).astype(np.int64))
    pieces = [_finite(ys[start:end]) for start, end in pairwise(edges)]
    return Curve(
        x=xs[edges[1:] - 1],
        mean=np.array([piece.mean() for piece in pieces]),
        low=np.array([piece.min() for piece in pieces]),
        high=np.array([piece.max() for piece in pieces]),
    )


def _finite(piece: Floats) -> Floats:
    finite = piece[np.isfinite(piece)]
    return finite if len(finite) else piece[:1]
