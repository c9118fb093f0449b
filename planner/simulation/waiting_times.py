"""The chances of one replicate: each kind of event has its own stream of random numbers.

So the same seed gives the same failures whatever else changes: scenarios that differ in one rate meet the same luck.
"""

from __future__ import annotations

import math
from random import Random
from typing import Protocol

from planner.simulation.scenario import Scenario

_HOUR, _DAY = 3600.0, 86_400.0


class WaitingTimes(Protocol):
    """Waiting times in seconds; `math.inf`: it does not come."""

    def failure(self) -> float:
        """Seconds in jobs until the next failure."""

    def maintenance(self) -> float:
        """Seconds from the start, or from the end of a maintenance, to the next one."""

    def maintenance_length(self) -> float:
        """Seconds that a maintenance takes."""

    def queue(self) -> float:
        """Seconds that a job waits."""

    def stop(self) -> float:
        """Seconds of training until the next restart that people want."""


class RandomWaitingTimes:
    """Exponential waiting times of replicate `replicate` under `seed`; other replicates change nothing."""

    def __init__(self, scenario: Scenario, seed: int, replicate: int) -> None:
        self._campaign = scenario
        kinds = ("failure", "maintenance", "length", "queue", "stop")
        self._random = {kind: Random(f"{seed}/{replicate}/{kind}") for kind in kinds}

    def _exponential(self, kind: str, mean_seconds: float | None) -> float:
        if mean_seconds is None:
            return math.inf
        return mean_seconds * self._random[kind].expovariate(1.0)

    def failure(self) -> float:
        """Seconds in jobs until the next failure."""
        return self._exponential("failure", _seconds(self._campaign.days_between_failures))

    def maintenance(self) -> float:
        """Seconds from the start, or from the end of a maintenance, to the next one."""
        return self._exponential("maintenance", _seconds(self._campaign.days_between_maintenances))

    def maintenance_length(self) -> float:
        """Seconds that a maintenance takes."""
        return self._exponential("length", _HOUR * self._campaign.maintenance_hours)

    def queue(self) -> float:
        """Seconds that a job waits."""
        return self._exponential("queue", _HOUR * self._campaign.queue_hours)

    def stop(self) -> float:
        """Seconds of training until the next restart that people want."""
        return self._exponential("stop", _seconds(self._campaign.days_between_stops))


def _seconds(days: float | None) -> float | None:
    return None if days is None else _DAY * days
