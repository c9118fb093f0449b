"""The timeline of a training without interruptions."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.duration import training_seconds
from planner.simulation.scenario import scenario_of
from planner.simulation.timeline import Timeline


def test_days_count_the_save_and_the_validation_at_the_end(bloom: RunConfig) -> None:
    # As the simulation without interruptions does.
    assert training_seconds(bloom) == pytest.approx(Timeline(scenario_of(bloom)).done[-1])
