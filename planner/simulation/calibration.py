"""Estimate rates from a record of incidents, with the uncertainty that few incidents leave.

Events at a constant rate are Poisson distributed. If n events occur in T days, the estimated rate is n / T events per
day. The exact confidence interval of the rate is Garwood's (Biometrika 28, 1936), whose ends are gamma quantiles. With
one event in a month, the 90 % interval spans almost two orders of magnitude. A forecast that treated the estimate as
the true rate would be too certain. Each replicate therefore draws its rate from the gamma distribution with shape n and
scale 1 / T, whose mean is the estimate.
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
from bloomery.base.unreadable import why_unreadable
from bloomery.config.load import validate
from bloomery.config.section import Count, NotBool, Section
from planner.simulation.scenario import Scenario

BLOOM = "bloom"
"""Name that selects the incidents of BLOOM's published chronicle, which are part of this package."""
Kind = Literal["hardware", "software", "maintenance", "planned restart"]
_Hours = Annotated[float, Field(ge=0), NotBool]


def _moment(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("a date, or a date and time with UTC offset, such as 2022-03-11T11:42:00-08:00")
    return value


Moment = Annotated[datetime | date, AfterValidator(_moment)]
"""Date with or without a time. A date without a time stands for noon UTC."""


class RecordedIncident(Section):
    """Incident that interrupted a training."""

    date: Moment
    """Date of the incident, with a time if it is known."""
    kind: Kind
    """Kind of the incident. Incidents of kind `hardware` and `software` killed the job."""
    iteration: Count | None = None
    """Iteration at which the incident occurred; None if the document does not state it."""
    hours_lost: _Hours | None = None
    """Hours lost in total; None if the document does not state them."""
    hours_down: _Hours | None = None
    """Hours for which a maintenance made the machine unavailable; None if the document does not state them."""
    what: str
    """Description of the incident."""
    document: str
    """Document that reports the incident."""


class Observed(Section):
    """Period that the record covers. The file of incidents must contain all incidents of this period."""

    run: str
    """Name of the training."""
    start: Moment
    """Start of the period."""
    end: Moment
    """End of the period."""
    iteration: Count | None = None
    """Iteration reached at the end of the period; None if the document does not state it."""
    document: str
    """Document that describes the period."""

    @property
    def days(self) -> float:
        """Length of the period in days."""
        return (instant(self.end) - instant(self.start)).total_seconds() / 86_400


class IncidentRecord(Section):
    """Content of a file of incidents."""

    observed: Observed
    """Period that the file covers."""
    incidents: list[RecordedIncident] = []
    """All incidents that interrupted the training in this period."""


def instant(moment: date) -> datetime:
    """Return a moment in UTC. A date without a time becomes noon."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC)
    return datetime.combine(moment, time(12), UTC)


def load_incidents(name: Path | str) -> IncidentRecord:
    """Read incidents from a TOML file, or those of BLOOM's published chronicle for the name `bloom`.

    Raises:
        ConfigError: the file is missing or invalid, or an incident lies outside the observed period.
    """
    own = str(name) != BLOOM
    try:
        text = (Path(name) if own else files("planner.simulation") / "incidents.toml").read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(
            "no such file", where=str(name), expected=f"the path of a TOML file of incidents, or {BLOOM!r}"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"the file cannot be read ({why_unreadable(error)})",
            where=str(name),
            expected="a TOML file in UTF-8 with [observed] and [[incidents]]",
        ) from error
    record = validate(raw, IncidentRecord, where=str(name), example="a TOML file with [observed] and [[incidents]]")
    start, end = instant(record.observed.start), instant(record.observed.end)
    if end <= start:
        raise ConfigError(
            "observed.end is not after observed.start",
            where=str(name),
            expected=f"an end of the observed period after {record.observed.start}",
        )
    for number, incident in enumerate(record.incidents):
        if not start.date() <= instant(incident.date).date() <= end.date():
            raise ConfigError(
                f"incidents[{number}].date {incident.date} is outside the observed period",
                where=str(name),
                expected=f"a date from {record.observed.start} to {record.observed.end}",
            )
    return record


@dataclass(frozen=True)
class Rate:
    """Number of events in a number of days."""

    events: int
    days: float

    @property
    def days_between(self) -> float | None:
        """Estimated mean days between events; None if there was no event."""
        return self.days / self.events if self.events else None

    def interval(self, level: float = 0.9) -> tuple[float, float | None]:
        """Return the confidence interval of the mean days between events: its lower and its upper end.

        `level` is the confidence level of the interval. The upper end is None if there was no event.
        """
        tail = (1 - level) / 2
        greatest = _solve(lambda mean: _poisson_up_to(self.events, mean), tail)
        least = _solve(lambda mean: _poisson_up_to(self.events - 1, mean), 1 - tail) if self.events else 0.0
        return self.days / greatest, self.days / least if least else None

    def drawn(self, random: Random) -> float | None:
        """Draw a mean number of days between events (see the module's docstring). Return None if there was no event."""
        return self.days / random.gammavariate(self.events, 1.0) if self.events else None


def _poisson_up_to(events: int, mean: float) -> float:
    """Return the probability of at most `events` events if `mean` events are expected."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(events + 1))


def _solve(falling: Callable[[float], float], value: float) -> float:
    """Return the argument above 0 at which the decreasing function `falling` equals `value`. Search by bisection."""
    low, high = 1e-12, 1.0
    while falling(high) > value:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Rates:
    """Rates of incidents for the next training on the same machine."""

    days: float
    """Length of the observed period in days."""
    failures: Rate | None
    """Rate of failures. If this rate or one of the next two is None, the scenario's own value is used."""
    maintenances: Rate | None
    stops: Rate | None
    """Rate of planned restarts."""
    maintenance_hours: float | None
    """Mean length of the maintenances whose length is known; None if none is known, and the scenario's own value is
    used."""
    hours_lost: float
    """Sum of the hours lost by all incidents for which they are known."""

    def estimated(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the estimated rates."""
        return self._put(scenario, lambda rate: rate.days_between)

    def drawn(self, scenario: Scenario, random: Random) -> Scenario:
        """Return the scenario with rates drawn from their distributions."""
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
    """Estimate the rates of failures, maintenances and planned restarts from a record of incidents.

    The rates are events per calendar day, although a training can fail only while a job runs. The rate of failures is
    therefore slightly too low, by the share of the time in which no job ran.
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
