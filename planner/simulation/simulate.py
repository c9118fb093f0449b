"""Simulate a training many times, and summarise these simulations (replicates)."""

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
    """Simulate `count` replicates of a training.

    A replicate depends on the scenario, the rates, the seed and its number, but not on `count`.

    If `rates` is given, each replicate draws its own rates of incidents from the probability distributions of `rates`.
    The drawn rates replace the rates of the scenario. If `stop_at_days` is given, each replicate stops after this many
    days, finished or not.

    Raises:
        CheckFailedError: a simulated training makes no progress.
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
    """Statistics of all replicates.

    The keys of quantiles are the percents in `PERCENTS`. A quantile of `finish_days` is infinite if fewer replicates
    finished than it needs.
    """

    replicates: int
    finished: int
    finish_days: dict[int, float]
    iteration: dict[int, float]
    checkpoints_kept: dict[int, float]
    checkpoints_at_most: int
    """Largest number of checkpoints on disk in any replicate at any time."""
    wall_hours: float
    """Mean wall-clock hours of a replicate."""
    useful_hours: float
    """Mean hours that a replicate spends on iterations that are not discarded."""
    lost_hours: dict[str, float]
    """Mean lost hours of a replicate, by cause."""
    failures: float
    """Mean number of failures. The next three fields are also means over the replicates."""
    maintenances: float
    stops: float
    jobs: float

    @property
    def goodput(self) -> float:
        """Useful hours divided by wall-clock hours."""
        return self.useful_hours / self.wall_hours


def simulate(
    scenario: Scenario, count: int, seed: int = 0, *, rates: Rates | None = None, stop_at_days: float | None = None
) -> list[Replicate]:
    """Simulate `count` replicates as `replicates` does, and return them without the time spans of their jobs."""
    return [each for each, _ in replicates(scenario, count, seed, rates=rates, stop_at_days=stop_at_days)]


def summarise(played: Sequence[Replicate]) -> Summary:
    """Return quantiles and means over the replicates in `played`, which must not be empty."""
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
    """Return the quantile of `values` for each percent in `PERCENTS`, with linear interpolation.

    `values` must not be empty, and may contain infinity.
    """
    ordered = sorted(values)
    found = {}
    for percent in PERCENTS:
        below, fraction = divmod(percent * (len(ordered) - 1), 100)
        low = ordered[below]
        # A neighbour with weight 0 must not be added, because it may be infinite and 0 times infinity is NaN.
        found[percent] = low if not fraction else low + fraction / 100 * (ordered[below + 1] - low)
        if math.isinf(low):
            found[percent] = low
    return found
