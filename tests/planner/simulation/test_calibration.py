"""Test rates that are estimated from incidents, and simulate the first month of BLOOM with these rates.

Numbers come from BigScience, train/tr11-176B-ml/chronicles.md, and intervals from printed tables of chi-squared
quantiles.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config.training import BatchConfig
from bloomery.spec.batch import steps
from planner.simulation.calibration import IncidentRecord, Rate, calibrate, instant, load_incidents
from planner.simulation.scenario import Phase, Scenario
from planner.simulation.simulate import simulate, summarise
from planner.simulation.timeline import Timeline

FILE = """
[observed]
run = "mine"
start = 2026-01-01T00:00:00Z
end = 2026-01-11T00:00:00Z
document = "our log"

[[incidents]]
date = 2026-01-03
kind = "hardware"
hours_lost = 3.5
what = "A node died."
document = "our log"

[[incidents]]
date = 2026-01-05T08:00:00+01:00
kind = "software"
hours_lost = 0.5
what = "A loader hung."
document = "our log"

[[incidents]]
date = 2026-01-07
kind = "maintenance"
hours_down = 6
what = "New cables."
document = "our log"
"""


@pytest.fixture(scope="module")
def chronicle() -> IncidentRecord:
    return load_incidents("bloom")


@pytest.fixture(scope="module")
def bloom() -> Scenario:
    """Return the scenario of BLOOM.

    An iteration with the full batch takes the published time. An iteration with a smaller batch takes the time that 12
    pipeline stages need for its number of micro-batches.
    """
    batch = BatchConfig.model_validate(
        {
            "micro_batch_size": 2,
            "global_batch_size": 2048,
            "rampup": {"start": 192, "increment": 16, "samples": 9_765_625},
        }
    )
    rungs = Counter(step.global_batch_size for step in steps(batch, 220_000_000))
    return Scenario(
        phases=tuple(
            Phase(count, 105.5 if size == 2048 else 105 / 139 * (size / 16 + 11)) for size, count in rungs.items()
        ),
        save_every_iterations=100,
        save_seconds=40.0,
        validation_every_iterations=1000,
        validation_seconds=12 * 60.0,
        restart_minutes=15.0,
        maintenance_hours=12.0,
        keep_last=15,
        keep_every_iterations=1000,
    )


def test_rates_are_estimated_from_the_chronicle(chronicle: IncidentRecord) -> None:
    rates = calibrate(chronicle)
    assert rates.days == pytest.approx(31.68, abs=0.01)
    assert rates.failures is not None
    assert rates.maintenances is not None
    assert rates.stops is not None
    assert (rates.failures.events, rates.maintenances.events, rates.stops.events) == (1, 1, 8)
    assert rates.hours_lost == 7.3
    assert rates.maintenance_hours is None
    # One GPU failed in a month, so the true mean time between failures may be a week or a year.
    least, most = rates.failures.interval()
    assert least < 7
    assert most is not None
    assert most > 365


def test_the_reported_loss_is_almost_a_whole_save_interval(chronicle: IncidentRecord, bloom: Scenario) -> None:
    # The training failed "2 iterations before checkpoint saving time". It saved every 250 iterations (README of
    # tr11-176B-ml at BigScience), and an iteration took 105.5 s.
    lost = [incident.hours_lost for incident in chronicle.incidents if incident.hours_lost is not None]
    assert lost == [pytest.approx(248 * bloom.phases[-1].seconds / 3600, abs=0.05)]


def test_blooms_first_month_is_within_the_simulated_range(chronicle: IncidentRecord, bloom: Scenario) -> None:
    # At noon of 2022-04-12, 90 % of the simulated trainings are at iteration 30,832 to 32,839. The median, 32,645, is
    # 1.7 days of work ahead of the real training. The simulated interruptions cost 17 hours on average, but the real
    # ones cost 50 hours. Between the entries of 04-04 and 04-06, only 387 iterations (11 hours of work) were done, and
    # the chronicle does not explain the rest of those two days.
    rates = calibrate(chronicle)
    summary = summarise(simulate(bloom, 1000, rates=rates, stop_at_days=rates.days))
    assert chronicle.observed.iteration is not None
    assert summary.iteration[5] <= chronicle.observed.iteration <= summary.iteration[95]
    assert summary.iteration[50] > chronicle.observed.iteration
    # At iteration 12,695, the chronicle states 124.7 remaining days, without downtime, saves and validations.
    left = (Timeline(bloom).share(bloom.iterations).useful - Timeline(bloom).share(12_695).useful) / 86_400
    assert left == pytest.approx(124.7, abs=0.7)


def test_two_days_of_the_chronicle_contain_less_than_half_a_day_of_work(
    chronicle: IncidentRecord, bloom: Scenario
) -> None:
    dated = [incident for incident in chronicle.incidents if incident.iteration in (25_956, 26_343)]
    hours = (instant(dated[1].date) - instant(dated[0].date)).total_seconds() / 3600
    work = Timeline(bloom)
    assert (work.done[26_343] - work.done[25_956]) / 3600 < hours / 4 < hours


@pytest.mark.parametrize(
    ("events", "least", "most"),
    # Halves of chi-squared quantiles: 0.05 with 2n and 0.95 with 2n + 2 degrees of freedom.
    [(0, 0.0, 5.991 / 2), (1, 0.1026 / 2, 9.488 / 2), (8, 7.962 / 2, 28.869 / 2), (30, 43.188 / 2, 81.381 / 2)],
)
def test_intervals_equal_those_of_the_tables(events: int, least: float, most: float) -> None:
    shortest, longest = Rate(events, 1.0).interval()
    assert 1 / shortest == pytest.approx(most, rel=1e-3)
    assert (1 / longest if longest else 0.0) == pytest.approx(least, rel=1e-3)


def test_drawn_rates_have_the_estimate_as_their_mean() -> None:
    random, rate = Random(5), Rate(4, 10.0)
    drawn = [1 / days for _ in range(4000) if (days := rate.drawn(random))]
    assert fmean(drawn) == pytest.approx(0.4, rel=0.05)
    assert Rate(0, 10.0).drawn(random) is None


def test_few_incidents_widen_the_range_of_finish_days(chronicle: IncidentRecord, bloom: Scenario) -> None:
    rates = calibrate(chronicle)
    sure = summarise(simulate(rates.estimated(bloom), 300)).finish_days
    unsure = summarise(simulate(bloom, 300, rates=rates)).finish_days
    assert unsure[95] - unsure[5] > 1.3 * (sure[95] - sure[5])


def test_a_users_incident_file_gives_its_own_rates(tmp_path: Path, bloom: Scenario) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    rates = calibrate(load_incidents(path))
    own = rates.estimated(bloom)
    assert own.days_between_failures == 5.0
    assert own.days_between_maintenances == 10.0
    assert own.days_between_stops is None
    assert own.maintenance_hours == 6.0
    assert rates.hours_lost == 4.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2026-01-07", "2026-03-07", r"incidents\[2\].date 2026-03-07 is outside"),
        ('"maintenance"', '"meteor"', r"incidents\[2\].kind"),
        ("hours_down", "hours_dawn", "did you mean 'incidents\\[2\\].hours_down'|hours_dawn: unknown key"),
        ("2026-01-11T00:00:00Z", "2025-01-11T00:00:00Z", "observed.end is not after observed.start"),
        ("2026-01-11T00:00:00Z", "2026-01-11T00:00:00", "UTC offset"),
        ("[observed]", "[observed", "cannot be read"),
    ],
)
def test_an_invalid_incident_file_is_refused_with_the_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=said):
        load_incidents(path)
    with pytest.raises(ConfigError, match="no such file"):
        load_incidents(tmp_path / "other.toml")
