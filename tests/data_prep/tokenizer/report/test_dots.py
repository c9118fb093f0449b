"""Test the axes of the dot plots."""

from __future__ import annotations

import pytest

from data_prep.tokenizer.report.dots import Axis


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize("values", [[1.0], [0.02, 0.9], [1.2, 25.0], [0.3, 700.0], [3.0, 3.1], [0.0, 0.0]])
def test_an_axis_covers_every_value_and_has_few_ticks(values, logarithmic):
    axis = Axis.around(values, logarithmic)
    assert all(0 <= axis.place(value) <= 100 for value in values)
    ticks = axis.ticks()
    assert len(ticks) <= 7
    assert all(axis.low <= tick <= axis.high for tick in ticks)
