"""Test the reduction of a curve to fewer points."""

from __future__ import annotations

import numpy as np

from bloomery.base.reduce_curve import reduce


def test_a_reduced_curve_keeps_its_range_and_its_spike() -> None:
    y = np.ones(115_311)
    y[31_214] = 100.0
    curve = reduce(range(1, len(y) + 1), y.tolist(), points=800)
    assert len(curve.x) == 800
    assert curve.x[-1] == len(y)
    assert curve.high.max() == 100.0
    assert curve.low.min() == 1.0
    assert curve.merged
    short = reduce([1, 2, 3], [3.0, 2.0, 1.0])
    assert not short.merged
    assert short.mean.tolist() == [3.0, 2.0, 1.0]
