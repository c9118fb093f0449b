"""Test the timeline of a training without interruptions."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.duration import training_seconds
from planner.simulation.scenario import scenario_of
from planner.simulation.timeline import Timeline


def test_training_seconds_include_the_last_save_and_validation(bloom: RunConfig) -> None:
    # The timeline of the simulation also includes them.
    assert training_seconds(bloom) == pytest.approx(Timeline(scenario_of(bloom)).done[-1])
