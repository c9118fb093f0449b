"""Test the output and the figure of `bloomery plan simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from simulated_run import changed
from typer.testing import CliRunner

from bloomery.base.errors import ConfigError
from planner.simulate_cli import simulate as command


def run(*arguments: object) -> Any:
    application = typer.Typer()
    application.command()(command)
    return CliRunner().invoke(application, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_json_output_contains_quantiles_causes_and_assumptions(run_file: Path) -> None:
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


def test_an_unfinished_training_has_no_finish_day(run_file: Path) -> None:
    found = json.loads(run(run_file, "--replicates", 20, "--json", "--stop-at-days", 0.25).stdout)
    assert found["finished"] == 0
    assert found["finish_days"]["95"] is None
    assert 0 < found["iteration"]["95"] < found["iterations"]
    text = run(run_file, "--replicates", 20, "--stop-at-days", 0.25)
    assert "unfinished" in text.stdout
    assert "iteration on day 0.25" in text.stdout


def test_incidents_set_the_rates_and_their_uncertainty_is_printed(run_file: Path) -> None:
    done = run(run_file, "--replicates", 20, "--json", "--incidents", "bloom")
    found = json.loads(done.stdout)
    assert found["rates"]["failures"]["events"] == 1
    assert found["assumed"]["days_between_failures"] == pytest.approx(31.68, abs=0.01)
    assert "failures: 1 in 31.7 days, so one every 6.7 to 617.6 days (90 % confidence interval)" in done.stderr
    assert "the simulation assumes 12 h" in done.stderr
    own = run(run_file, "--replicates", 20, "--json", "--incidents", "bloom", "--days-between-failures", 3)
    found = json.loads(own.stdout)
    assert found["assumed"]["days_between_failures"] == 3.0
    assert set(found["rates"]) == {"maintenances", "wanted_restarts"}


def test_a_simulation_without_failures_reports_this(run_file: Path) -> None:
    done = run(changed(run_file, plan__faults={}), "--replicates", 2)
    assert "no failures assumed" in done.stderr
    assert "rework\t0.0\t0.00 %" in done.stdout


def test_a_wrong_figure_name_is_refused_before_the_simulation(run_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends with \.svg or \.png"):
        run(run_file, "--figure", tmp_path / "figure.gif", "--replicates", 10**9)


def test_a_figure_is_written_in_addition_to_the_json_output(run_file: Path, tmp_path: Path) -> None:
    done = run(run_file, "--replicates", 20, "--json", "--figure", tmp_path / "figure.svg")
    assert json.loads(done.stdout)["replicates"] == 20
    assert ElementTree.parse(tmp_path / "figure.svg").getroot().tag.endswith("svg")
