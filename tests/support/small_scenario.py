"""Make a scenario of a training of 100 hours in two phases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.simulation.scenario import Phase, Scenario


def scenario(**changes: Any) -> Scenario:
    """Return a scenario of 100 hours in two phases, with a save of one minute every ten iterations."""
    base = Scenario(
        phases=(Phase(60, 600.0), Phase(90, 3600.0)),
        save_every_iterations=10,
        save_seconds=60.0,
        validation_every_iterations=25,
        validation_seconds=300.0,
        restart_minutes=10.0,
        maintenance_hours=5.0,
    )
    return replace(base, **changes)
