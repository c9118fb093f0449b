"""Many replicates, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from planner.simulation.calibration import Rates
from planner.simulation.scenario import Scenario
from planner.simulation.simulate_replicate import LOSSES, JobSpan, Replicate, simulate_replicate
from planner.simulation.timeline import Timeline
from planner.simulation.waiting_times import RandomWaitingTimes

PERCENTS = (5, 25, 50, 75, 95)


def replicates(
    scenario: Scenario,
    count: int,
    seed: int = 0,
    *,
    rates: Rates | None = None,
    stop_at_days: float | None = None,
    with_spans: bool = False,
) -> Iterator[tuple[Replicate, list[JobSpan]]]:
    """Play `count` replicates; number r is the same whatever `count` is.

    `rates`: each replicate draws its own rates from what so few incidents leave possible, and these replace the
    scenario's. `stop_at_days`: how it stands then, finished or not.

    Raises CheckFailedError when a training does not come forward.
    """
    work = Timeline(scenario)
    horizon = math.inf if stop_at_days is None else 86_400 * stop_at_days
    for number in range(count):
        own = scenario if rates is None else rates.drawn(scenario, Random(f"{seed}/{number}/rates"))
        spans: list[JobSpan] = []
        draws = RandomWaitingTimes(own, seed, number)
        yield simulate_replicate(work, draws, horizon_seconds=horizon, spans=spans if with_spans else None), spans


@dataclass(frozen=True)
class Summary:
    """Of all replicates. Quantiles by percent; infinite where so many had not finished."""

    replicates: int
    finished: int
    finish_days: dict[int, float]
    iteration: dict[int, float]
    checkpoints_kept: dict[int, float]
    checkpoints_at_most: int
    """Of any replicate, at any time."""
    wall_hours: float
    """Mean."""
    useful_hours: float
    """Mean."""
    lost_hours: dict[str, float]
    """Mean, by cause."""
    failures: float
    """Mean number, as the following."""
    maintenances: float
    stops: float
    jobs: float

    @property
    def goodput(self) -> float:
        """Useful hours over wall hours."""
        return self.useful_hours / self.wall_hours


def simulate(
    scenario: Scenario, count: int, seed: int = 0, *, rates: Rates | None = None, stop_at_days: float | None = None
) -> list[Replicate]:
    """`count` replicates, as `replicates` plays them, without the course of each."""
    return [each for each, _ in replicates(scenario, count, seed, rates=rates, stop_at_days=stop_at_days)]


def summarise(played: Sequence[Replicate]) -> Summary:
    """Quantiles and means over at least one replicate."""
    finish = [math.inf if each.finish_days is None else each.finish_days for each in played]
    return Summary(
        replicates=len(played),
        finished=sum(each.finish_days is not None for each in played),
        finish_days=quantiles(finish),
        iteration=quantiles([each.iteration for each in played]),
        checkpoints_kept=quantiles([each.checkpoints_kept for each in played]),
        checkpoints_at_most=max(each.checkpoints_at_most for each in played),
        wall_hours=24 * fmean(each.wall_days for each in played),
        useful_hours=fmean(each.useful_hours for each in played),
        lost_hours={cause: fmean(each.lost_hours[cause] for each in played) for cause in LOSSES},
        failures=fmean(each.failures for each in played),
        maintenances=fmean(each.maintenances for each in played),
        stops=fmean(each.stops for each in played),
        jobs=fmean(each.jobs for each in played),
    )


def quantiles(values: Sequence[float]) -> dict[int, float]:
    """The quantiles of `PERCENTS`, linear between neighbours; one value or more, infinite ones too."""
    ordered = sorted(values)
    found = {}
    for percent in PERCENTS:
        below, fraction = divmod(percent * (len(ordered) - 1), 100)
        low = ordered[below]
        # An infinite neighbour counts only where it has a weight: 0 times infinity is no number.
        found[percent] = low if not fraction else low + fraction / 100 * (ordered[below + 1] - low)
        if math.isinf(low):
            found[percent] = low
    return found
