"""Test the scenario that is simulated for a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_run import changed

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import load_config
from bloomery.spec.duration import ladder_seconds, save_seconds
from planner.simulation.scenario import Phase, scenario_of


def test_a_scenario_takes_batches_saves_and_faults_from_the_configuration(run_file: Path) -> None:
    config = load_config(run_file)
    own = scenario_of(config)
    assert own.phases == tuple(Phase(*each) for each in ladder_seconds(config))
    assert own.save_seconds == save_seconds(config) == 20.0
    assert (own.days_between_failures, own.queue_hours, own.restart_minutes) == (0.5, 1.0, 10.0)
    assert own.save_every_iterations == config.training.checkpoint.every_iterations
    assert own.job_seconds is None


def test_a_simulated_job_stops_before_its_time_limit(run_file: Path) -> None:
    own = scenario_of(load_config(changed(run_file, plan__faults__job_hours=20.0)))
    longest = max(phase.seconds for phase in own.phases)
    assert own.job_seconds == pytest.approx(20 * 3600 - 5 * 60 - 1.5 * 20 - 2 * longest)
    assert scenario_of(load_config(changed(run_file, training__segment__minutes=60))).job_seconds == 3600
    with pytest.raises(ConfigError, match=r"plan\.faults\.job_hours.*ends before its first iteration"):
        scenario_of(load_config(changed(run_file, plan__faults__job_hours=0.2)))
