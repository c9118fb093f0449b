"""Test one simulated training against a clock that ticks every second."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_scenario import scenario
from ticking_clock import FixedWaitingTimes, TickingClock

from planner.simulation.scenario import Phase, Scenario
from planner.simulation.simulate import replicates
from planner.simulation.simulate_replicate import JobSpan, simulate_replicate
from planner.simulation.timeline import Timeline

DAY = 86_400


def even(least: int, most: int) -> st.SearchStrategy[int]:
    """Draw even numbers of seconds, so that an event and the odd horizon never happen at the same time."""
    return st.integers(least // 2, most // 2).map(lambda half: 2 * half)


counts = st.integers(1, 12)
scenarios = st.builds(
    Scenario,
    phases=st.lists(st.builds(Phase, st.integers(1, 15), even(2, 40)), min_size=1, max_size=4).map(tuple),
    save_every_iterations=counts,
    save_rules=st.dictionaries(counts, counts, max_size=2).map(lambda rules: tuple(sorted(rules.items()))),
    save_at_iterations=st.lists(st.integers(1, 30), max_size=2).map(tuple),
    save_seconds=even(0, 60),
    validation_every_iterations=counts,
    validation_seconds=even(0, 60),
    job_seconds=st.none() | even(0, 600),
    job_iterations=st.none() | counts,
    restart_minutes=st.sampled_from([0.0, 0.5, 2.0]),
    keep_last=st.integers(1, 4),
    keep_every_iterations=st.none() | counts,
)
times = st.lists(even(2, 500), max_size=6)
odd = even(0, 3000).map(lambda second: second + 1)


@settings(max_examples=400, deadline=None)
@given(scenarios, st.tuples(times, times, times, times, times), odd | st.just(math.inf))
def test_the_simulation_by_events_equals_a_ticking_clock(own: Scenario, events: Any, horizon: float) -> None:
    slow = TickingClock(own, FixedWaitingTimes(*events), horizon).run()
    assert simulate_replicate(Timeline(own), FixedWaitingTimes(*events), horizon_seconds=horizon) == slow


def test_spans_state_where_each_job_began_and_ended() -> None:
    own = scenario(days_between_failures=0.5)
    replicate, spans = next(replicates(own, 1, seed=1, with_spans=True))
    assert len(spans) > 1
    assert spans[0] == JobSpan(600.0, spans[0].seconds, 0, 150)
    assert all(before.start + before.seconds + 600 <= after.start for before, after in pairwise(spans))
    assert replicate.finish_days == pytest.approx((spans[-1].start + spans[-1].seconds) / DAY)
