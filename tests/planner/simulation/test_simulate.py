"""Test the event-driven simulation against closed formulas."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import Any

import pytest
from small_scenario import scenario

from bloomery.base.errors import CheckFailedError, ConfigError
from planner.risk import wall_seconds
from planner.simulation.scenario import Phase, Scenario
from planner.simulation.simulate import quantiles, simulate, summarise

DAY = 86_400


def test_without_faults_the_time_equals_the_sum_of_all_work() -> None:
    own = scenario()
    replicate = simulate(own, 1)[0]
    # 150 iterations include 6 validations, 15 saves and one start.
    seconds = 60 * 600 + 90 * 3600 + 6 * 300 + 15 * 60 + 10 * 60
    assert replicate.finish_days == seconds / DAY
    assert replicate.iteration == 150
    assert (replicate.jobs, replicate.failures, replicate.checkpoints_kept, replicate.checkpoints_at_most) == (
        1,
        0,
        1,
        2,
    )


def test_useful_and_lost_hours_add_up_to_all_hours() -> None:
    own = scenario(days_between_failures=0.5, days_between_maintenances=1.0, queue_hours=2.0, days_between_stops=1.0)
    for replicate in simulate(own, 50, seed=3):
        assert math.isclose(replicate.useful_hours + sum(replicate.lost_hours.values()), 24 * replicate.wall_days)
        assert replicate.useful_hours == pytest.approx(100)
        assert replicate.failures + replicate.maintenances > 0


def test_the_same_seed_gives_the_same_trainings_for_any_number_of_replicates() -> None:
    own = scenario(days_between_failures=0.5, queue_hours=1.0)
    assert simulate(own, 20, seed=7) == simulate(own, 20, seed=7)
    assert simulate(own, 20, seed=7)[:5] == simulate(own, 5, seed=7)
    assert simulate(own, 5, seed=7) != simulate(own, 5, seed=8)


def test_more_failures_delay_the_finish() -> None:
    finish = [
        summarise(simulate(scenario(days_between_failures=days), 300)).finish_days[50]
        for days in (8.0, 4.0, 2.0, 1.0, 0.5)
    ]
    assert finish == sorted(finish)
    assert finish[-1] > finish[0] + 1


def test_failures_cost_as_much_as_dalys_formula_predicts() -> None:
    # Daly's formula is exact for these failures, but does not include the first start and the last save.
    own = Scenario(
        phases=(Phase(1000, 100.0),),
        save_every_iterations=20,
        save_seconds=120.0,
        validation_every_iterations=1000,
        restart_minutes=15.0,
        days_between_failures=0.1,
    )
    between, start = 0.1 * DAY, 900.0
    expected = wall_seconds(1000 * 100.0, 20 * 100.0, 120.0, start, between) + between * math.expm1(start / between)
    found = [replicate.wall_days * DAY for replicate in simulate(own, 2000)]
    assert abs(fmean(found) - expected) < 4 * stdev(found) / math.sqrt(len(found))


def test_a_training_without_progress_raises_an_error() -> None:
    own = Scenario(
        phases=(Phase(100, 600.0),),
        save_every_iterations=100,
        validation_every_iterations=100,
        days_between_failures=0.005,
    )
    with pytest.raises(CheckFailedError, match="makes no progress: iteration 0 of 100"):
        simulate(own, 1)


def test_a_simulation_that_stops_at_a_day_reports_the_iteration_of_that_day() -> None:
    own = scenario(days_between_failures=2.0)
    early, late = (simulate(own, 20, stop_at_days=days) for days in (1.0, 1000.0))
    assert all(each.finish_days is None and each.wall_days == 1.0 and each.iteration < 150 for each in early)
    assert late == simulate(own, 20)


def test_quantiles_are_interpolated_and_may_be_infinite() -> None:
    assert quantiles([4.0, 1.0, 3.0, 2.0, 5.0]) == pytest.approx({5: 1.2, 25: 2.0, 50: 3.0, 75: 4.0, 95: 4.8})
    found = quantiles([1.0, 2.0, 3.0, math.inf, math.inf])
    assert found[50] == 3.0
    assert found[75] == math.inf
    assert quantiles([7.0]) == dict.fromkeys((5, 25, 50, 75, 95), 7.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("save_every_iterations", 0),
        ("days_between_failures", 0.0),
        ("days_between_failures", math.nan),
        ("queue_hours", -1.0),
        ("phases", ()),
    ],
)
def test_impossible_values_of_a_scenario_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError):
        scenario(**{key: value})
