"""Rates from a record of incidents, with the uncertainty that so few of them leave.

Events that come at a constant rate are Poisson: n in T days estimate n / T a day, and the exact interval for the rate
is Garwood's (Biometrika 28, 1936), whose ends are gamma quantiles. With one event in a month its 90 % interval reaches
over two orders of magnitude; a forecast that took the estimate for the truth would promise too much. So each replicate
draws its rate from the gamma distribution with shape n and scale 1 / T, whose mean is the estimate.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from importlib.resources import files
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.base.errors import ConfigError
from bloomery.config.load import validate
from bloomery.config.section import Count, NotBool, Section
from planner.simulation.scenario import Scenario

BLOOM = "bloom"
"""Name of the founding documents' incidents, which come with the software."""
Kind = Literal["hardware", "software", "maintenance", "planned restart"]
_Hours = Annotated[float, Field(ge=0), NotBool]


def _moment(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("a date, or a moment with its UTC offset, such as 2022-03-11T11:42:00-08:00")
    return value


Moment = Annotated[datetime | date, AfterValidator(_moment)]
"""A moment; of a day whose hour nobody said, noon UTC stands for it."""


class RecordedIncident(Section):
    """One interruption."""

    date: Moment
    """When."""
    kind: Kind
    """What it was: `hardware` and `software` killed the job."""
    iteration: Count | None = None
    """Iteration at which it came, where that is said."""
    hours_lost: _Hours | None = None
    """Hours lost in all, where that is said."""
    hours_down: _Hours | None = None
    """Of a maintenance: hours that the machine was away, where that is said."""
    what: str
    """What happened."""
    document: str
    """Where it is written."""


class Observed(Section):
    """The time that the record covers: all incidents of it are in the file."""

    run: str
    """Which training."""
    start: Moment
    """From here."""
    end: Moment
    """To here."""
    iteration: Count | None = None
    """Iteration reached at the end, where that is said."""
    document: str
    """Where it is written."""

    @property
    def days(self) -> float:
        """Length."""
        return (instant(self.end) - instant(self.start)).total_seconds() / 86_400


class IncidentRecord(Section):
    """A file of incidents."""

    observed: Observed
    """The time that it covers."""
    incidents: list[RecordedIncident] = []
    """All that interrupted the training in that time."""


def instant(moment: date) -> datetime:
    """A moment in UTC; a bare date's noon."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC)
    return datetime.combine(moment, time(12), UTC)


def load_incidents(name: Path | str) -> IncidentRecord:
    """Incidents from a TOML file, or the founding documents' ones for `bloom`.

    Raises ConfigError when the file is missing or wrong, or an incident lies outside of the time observed.
    """
    own = str(name) != BLOOM
    try:
        text = (Path(name) if own else files("planner.simulation") / "incidents.toml").read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(name), expected=f"a TOML of incidents, or {BLOOM!r}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot be read ({error})", where=str(name)) from error
    record = validate(raw, IncidentRecord, where=str(name), example="a TOML with [observed] and [[incidents]]")
    start, end = instant(record.observed.start), instant(record.observed.end)
    if end <= start:
        raise ConfigError("observed.end is not after observed.start", where=str(name))
    for number, incident in enumerate(record.incidents):
        if not start.date() <= instant(incident.date).date() <= end.date():
            raise ConfigError(
                f"incidents[{number}].date {incident.date} is outside of the time observed",
                where=str(name),
                expected=f"{record.observed.start} to {record.observed.end}",
            )
    return record


@dataclass(frozen=True)
class Rate:
    """Events counted over some days."""

    events: int
    days: float

    @property
    def days_between(self) -> float | None:
        """Mean days between events; None: there was none."""
        return self.days / self.events if self.events else None

    def interval(self, level: float = 0.9) -> tuple[float, float | None]:
        """Mean days between events that the count leaves possible at `level`, least first; None: no upper end."""
        tail = (1 - level) / 2
        greatest = _solve(lambda mean: _poisson_up_to(self.events, mean), tail)
        least = _solve(lambda mean: _poisson_up_to(self.events - 1, mean), 1 - tail) if self.events else 0.0
        return self.days / greatest, self.days / least if least else None

    def drawn(self, random: Random) -> float | None:
        """A mean of days between events, drawn as the module says; None without events."""
        return self.days / random.gammavariate(self.events, 1.0) if self.events else None


def _poisson_up_to(events: int, mean: float) -> float:
    """Probability of at most `events` when `mean` are expected."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(events + 1))


def _solve(falling: Callable[[float], float], value: float) -> float:
    """The point above 0 where a falling function has `value`, by bisection."""
    low, high = 1e-12, 1.0
    while falling(high) > value:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Rates:
    """What a record of incidents says about the next training on the same machine."""

    days: float
    """Observed."""
    failures: Rate | None
    """None, as in the next two: nothing is said, a scenario keeps its own."""
    maintenances: Rate | None
    stops: Rate | None
    """Planned restarts."""
    maintenance_hours: float | None
    """Mean of the lengths that are said; None: none is, a scenario keeps its own."""
    hours_lost: float
    """Sum of what is said."""

    def estimated(self, scenario: Scenario) -> Scenario:
        """The scenario under the estimated rates."""
        return self._put(scenario, lambda rate: rate.days_between)

    def drawn(self, scenario: Scenario, random: Random) -> Scenario:
        """The scenario under rates that the record leaves possible."""
        return self._put(scenario, lambda rate: rate.drawn(random))

    def _put(self, scenario: Scenario, days_between: Callable[[Rate], float | None]) -> Scenario:
        def of(rate: Rate | None, own: float | None) -> float | None:
            return own if rate is None else days_between(rate)

        return replace(
            scenario,
            days_between_failures=of(self.failures, scenario.days_between_failures),
            days_between_maintenances=of(self.maintenances, scenario.days_between_maintenances),
            days_between_stops=of(self.stops, scenario.days_between_stops),
            maintenance_hours=scenario.maintenance_hours if self.maintenance_hours is None else self.maintenance_hours,
        )


def calibrate(record: IncidentRecord) -> Rates:
    """Rates of failures, maintenances and planned restarts.

    Days are the calendar's, though a training fails only while a job runs: the difference is the lost time's share.
    """
    days = record.observed.days
    kinds = [incident.kind for incident in record.incidents]
    down = [
        incident.hours_down
        for incident in record.incidents
        if incident.kind == "maintenance" and incident.hours_down is not None
    ]
    return Rates(
        days=days,
        failures=Rate(kinds.count("hardware") + kinds.count("software"), days),
        maintenances=Rate(kinds.count("maintenance"), days),
        stops=Rate(kinds.count("planned restart"), days),
        maintenance_hours=fmean(down) if down else None,
        hours_lost=math.fsum(incident.hours_lost or 0.0 for incident in record.incidents),
    )
