"""Test Young's and Daly's save intervals and the cost of failures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.risk import daly_interval, risk, wall_seconds, young_interval


def test_the_intervals_of_young_and_daly_follow_their_formulas() -> None:
    # Young 1974: sqrt(2 d M). Both intervals agree if a save is much shorter than the time between failures.
    assert young_interval(40, 14 * 86_400) == pytest.approx(math.sqrt(2 * 40 * 14 * 86_400))
    assert daly_interval(40, 14 * 86_400) == pytest.approx(young_interval(40, 14 * 86_400), rel=0.01)
    assert daly_interval(100, 40) == 40


@given(st.floats(1, 600), st.floats(3600, 40 * 86_400), st.floats(0, 3600))
def test_dalys_interval_loses_the_least_time(save: float, mean: float, restart: float) -> None:
    best = daly_interval(save, mean)
    lost = risk(best, save, restart, mean).lost_fraction
    assert 0 < lost < 1
    for factor in (0.25, 0.5, 0.8, 1.25, 2, 4):
        assert lost <= risk(best * factor, save, restart, mean).lost_fraction + 2e-3


def test_without_failures_only_saves_cost_time() -> None:
    assert wall_seconds(1e6, 1000, 10, 600, 1e15) == pytest.approx(1e6 * 1.01, rel=1e-3)
