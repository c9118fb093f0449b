"""Test the verb `bloomery logline`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, TR11_LOG

PUBLISHED = TR11_LOG


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bloomery.cli", "logline", *words], capture_output=True, text=True)


def test_a_value_that_is_not_finite_is_null_in_json(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(" iteration 1/ 2 | lm loss: NAN | grad norm: inf | learning rate: 1.0E-05 |\n")
    row = json.loads(run("parse", str(log)).stdout, parse_constant=pytest.fail)
    assert (row["loss"], row["grad_norm"], row["learning_rate"]) == (None, None, 1e-5)


def test_an_invalid_number_is_refused_with_file_and_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("hello\n iteration 1/ 2 | consumed samples: many |\n")
    done = run("parse", str(log))
    assert done.returncode == 1
    assert f"{log}:2: not a valid line of an iteration" in done.stderr
    log.write_text("hello\n")
    done = run("parse", str(log))
    assert done.returncode == 1
    assert "contains no line of an iteration" in done.stderr


@pytest.mark.slow
def test_parse_prints_rows_and_check_reports_differences(tmp_path: Path) -> None:
    config = str(ROOT / "config/models/tr11-176b.yaml")
    rows = [json.loads(row) for row in run("parse", str(PUBLISHED)).stdout.splitlines()]
    assert (len(rows), rows[0]["iteration"], rows[0]["grad_norm"]) == (12, 12_695, 0.174)
    assert json.loads(run("parse", str(PUBLISHED), "--json").stdout) == rows
    assert run("check", config, str(PUBLISHED)).returncode == 0
    wrong = tmp_path / "log.txt"
    wrong.write_text(PUBLISHED.read_text().replace("47772592", "47772593"))
    done = run("check", config, str(wrong), "--json")
    assert done.returncode == 1
    value = json.loads(done.stdout)
    assert value["lines"] == 12
    (found,) = value["departures"]
    assert (found["iteration"], found["column"], found["logged"]) == (31_216, "consumed_samples", "47772593")
    done = run("check", str(ROOT / "config/models/tr8-104b.yaml"), str(PUBLISHED))
    assert done.returncode == 1
    assert "values differ from the plan in 12 lines of the log" in done.stderr


@pytest.mark.slow
def test_check_accepts_the_log_lines_of_the_plan(tmp_path: Path) -> None:
    # The check must accept the lines that the plan renders.
    config = str(ROOT / "config/models/tr8-104b-curriculum.yaml")
    words = ["--seconds-per-iteration", "60", "--loss", "3", "--grad-norm", "0.5", "--log-line"]
    plan = [sys.executable, "-m", "bloomery.cli", "plan", config, *words]
    lines = [
        subprocess.run([*plan, "--at", f"iteration={iteration}"], capture_output=True, text=True).stdout
        for iteration in (1, 20_000, 80_000)
    ]
    log = tmp_path / "log.txt"
    log.write_text("".join(lines))
    assert run("check", config, str(log)).stdout == "all values in 3 lines of the log agree with the plan\n"
