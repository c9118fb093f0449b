"""`bloomery plan simulate`: what it prints and draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml
from repository import ROOT
from typer.testing import CliRunner

from bloomery.base.errors import ConfigError
from bloomery.checks.validate import load_config
from bloomery.spec.duration import ladder_seconds, save_seconds
from planner.simulate_cli import simulate as command
from planner.simulation.scenario import Phase, scenario_of

FAULTS = {"days_between_failures": 0.5, "restart_minutes": 10, "queue_hours": 1.0}


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """The sample's YAML as a training of 20 hours."""
    raw = yaml.safe_load((ROOT / "config/sample.yaml").read_text())
    raw["training"]["segment"] = {}
    raw["plan"] = {"gpu": "a100-80gb", "tflops_hardware": 2e-5, "save_seconds": 20.0, "faults": dict(FAULTS)}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def changed(path: Path, **changes: Any) -> Path:
    """The same file with `a__b=value` put at `a.b`."""
    raw = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        place, keys = raw, key.split("__")
        for part in keys[:-1]:
            place = place.setdefault(part, {})
        place[keys[-1]] = value
    path.write_text(yaml.safe_dump(raw))
    return path


def run(*arguments: object) -> Any:
    application = typer.Typer()
    application.command()(command)
    return CliRunner().invoke(application, [str(argument) for argument in arguments], catch_exceptions=False)


def test_a_runs_campaign_is_its_ladder_its_saves_and_its_faults(run_file: Path) -> None:
    config = load_config(run_file)
    own = scenario_of(config)
    assert own.phases == tuple(Phase(*each) for each in ladder_seconds(config))
    assert own.save_seconds == save_seconds(config) == 20.0
    assert (own.days_between_failures, own.queue_hours, own.restart_minutes) == (0.5, 1.0, 10.0)
    assert own.save_every_iterations == config.training.checkpoint.every_iterations
    assert own.job_seconds is None


def test_a_job_is_told_to_end_in_time(run_file: Path) -> None:
    own = scenario_of(load_config(changed(run_file, plan__faults__job_hours=20.0)))
    longest = max(phase.seconds for phase in own.phases)
    assert own.job_seconds == pytest.approx(20 * 3600 - 5 * 60 - 1.5 * 20 - 2 * longest)
    assert scenario_of(load_config(changed(run_file, training__segment__minutes=60))).job_seconds == 3600
    with pytest.raises(ConfigError, match=r"plan\.faults\.job_hours.*ends before its first iteration"):
        scenario_of(load_config(changed(run_file, plan__faults__job_hours=0.2)))


def test_json_holds_quantiles_causes_and_what_was_assumed(run_file: Path) -> None:
    done = run(run_file, "--replicates", 50, "--json", "--save-every", 7)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    days = found["finish_days"]
    assert days["5"] <= days["50"] <= days["95"]
    assert found["uninterrupted_days"] < days["5"]
    assert set(found["lost_hours"]) == {"rework", "restart", "queue", "maintenance", "saving", "validation"}
    assert found["goodput"] == pytest.approx(found["useful_hours"] / found["wall_hours"])
    assert found["useful_hours"] + sum(found["lost_hours"].values()) == pytest.approx(found["wall_hours"])
    assert found["assumed"]["save_every_iterations"] == 7
    assert found["assumed"]["days_between_failures"] == 0.5
    assert found["finished"] == found["replicates"] == 50
    assert run(run_file, "--replicates", 50, "--json", "--save-every", 7).stdout == done.stdout


def test_what_is_not_finished_at_the_day_has_no_date(run_file: Path) -> None:
    found = json.loads(run(run_file, "--replicates", 20, "--json", "--stop-at-days", 0.25).stdout)
    assert found["finished"] == 0
    assert found["finish_days"]["95"] is None
    assert 0 < found["iteration"]["95"] < found["iterations"]
    text = run(run_file, "--replicates", 20, "--stop-at-days", 0.25)
    assert "later" in text.stdout
    assert "iteration, day 0.25" in text.stdout


def test_incidents_bring_their_rates_and_say_how_uncertain_they_are(run_file: Path) -> None:
    done = run(run_file, "--replicates", 20, "--json", "--incidents", "bloom")
    found = json.loads(done.stdout)
    assert found["rates"]["failures"]["events"] == 1
    assert found["assumed"]["days_between_failures"] == pytest.approx(31.68, abs=0.01)
    assert "failures: 1 in 31.7 days, so one every 6.7 to 617.6 days (90 % interval)" in done.stderr
    assert "12 h are assumed" in done.stderr
    own = run(run_file, "--replicates", 20, "--json", "--incidents", "bloom", "--days-between-failures", 3)
    found = json.loads(own.stdout)
    assert found["assumed"]["days_between_failures"] == 3.0
    assert set(found["rates"]) == {"maintenances", "wanted_restarts"}


def test_a_plan_without_failures_says_so(run_file: Path) -> None:
    done = run(changed(run_file, plan__faults={}), "--replicates", 2)
    assert "no failures assumed" in done.stderr
    assert "rework\t0.0\t0.00 %" in done.stdout


def test_a_wrong_name_of_a_figure_is_refused_before_the_simulation(run_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a name with \.svg or \.png"):
        run(run_file, "--figure", tmp_path / "figure.gif", "--replicates", 10**9)


def test_a_figure_is_written_beside_the_answer(run_file: Path, tmp_path: Path) -> None:
    done = run(run_file, "--replicates", 20, "--json", "--figure", tmp_path / "figure.svg")
    assert json.loads(done.stdout)["replicates"] == 20
    assert ElementTree.parse(tmp_path / "figure.svg").getroot().tag.endswith("svg")
