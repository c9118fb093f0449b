"""Draw the random waiting times of one replicate.

Each kind of event has its own stream of random numbers. With the same seed, scenarios with different rates therefore
use the same random numbers, which makes their results comparable.
"""

from __future__ import annotations

import math
from random import Random
from typing import Protocol

from planner.simulation.scenario import Scenario

_HOUR, _DAY = 3600.0, 86_400.0


class WaitingTimes(Protocol):
    """Source of waiting times in seconds. A waiting time of `math.inf` means that the event never occurs."""

    def failure(self) -> float:
        """Return the seconds of job time until the next failure."""

    def maintenance(self) -> float:
        """Return the seconds until the next maintenance, from the start of the training or the end of the last
        maintenance."""

    def maintenance_length(self) -> float:
        """Return the seconds that a maintenance takes."""

    def queue(self) -> float:
        """Return the seconds that a job waits in the queue."""

    def stop(self) -> float:
        """Return the seconds of training until the next planned restart."""


class RandomWaitingTimes:
    """Exponential waiting times. They depend only on the scenario, `seed` and the number of the replicate."""

    def __init__(self, scenario: Scenario, seed: int, replicate: int) -> None:
        self._campaign = scenario
        kinds = ("failure", "maintenance", "length", "queue", "stop")
        self._random = {kind: Random(f"{seed}/{replicate}/{kind}") for kind in kinds}

    def _exponential(self, kind: str, mean_seconds: float | None) -> float:
        if mean_seconds is None:
            return math.inf
        return mean_seconds * self._random[kind].expovariate(1.0)

    def failure(self) -> float:
        """Return the seconds of job time until the next failure."""
        return self._exponential("failure", _seconds(self._campaign.days_between_failures))

    def maintenance(self) -> float:
        """Return the seconds until the next maintenance, from the start of the training or the end of the last
        maintenance."""
        return self._exponential("maintenance", _seconds(self._campaign.days_between_maintenances))

    def maintenance_length(self) -> float:
        """Return the seconds that a maintenance takes."""
        return self._exponential("length", _HOUR * self._campaign.maintenance_hours)

    def queue(self) -> float:
        """Return the seconds that a job waits in the queue."""
        return self._exponential("queue", _HOUR * self._campaign.queue_hours)

    def stop(self) -> float:
        """Return the seconds of training until the next planned restart."""
        return self._exponential("stop", _seconds(self._campaign.days_between_stops))


def _seconds(days: float | None) -> float | None:
    return None if days is None else _DAY * days
