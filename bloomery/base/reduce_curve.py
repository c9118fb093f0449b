"""Reduce the curves of long runs. Each point is the mean and the range of the values in a range of iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A curve with few points; each field is a float64 array [points]. A point of one value has low = mean = high."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats

    @property
    def merged(self) -> bool:
        """Whether any point merges several values that differ."""
        return bool(np.any(self.low != self.high))


def reduce(x: Sequence[float], y: Sequence[float], points: int = 800) -> Curve:
    """Divide a curve into at most `points` pieces, and merge each piece into one point.

    A point has the last x of its piece, and the mean, the smallest and the largest y.
    Values that are not finite (a loss that diverged) are ignored, unless a piece has no finite value.
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
