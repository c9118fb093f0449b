"""Test that `bloomery init` makes a configuration from a user's texts, and that the checks accept it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import bloomery
from repository import ROOT
from typer.testing import CliRunner

from bloomery.base.errors import ConfigError
from data_prep import init_cli
from data_prep.new_run.estimate_duration import Probe
from data_prep.new_run.machine import Machine


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Make a folder with a file for each of two languages."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for code, text in (("fr", "un texte"), ("sw", "maandishi")):
        rows = [{"text": f"{text} {n}", "lang": code, "id": n} for n in range(20)]
        (folder / f"{code}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(init_cli.app, [*arguments, "--yes"], catch_exceptions=True)


@pytest.mark.slow
def test_flags_alone_write_a_configuration_that_passes_its_checks(texts: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    done = bloomery("init", "--source", str(texts), "--name", "mine", "--output", str(target), "--no-probe", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"bloomery config check --data {target}" in done.stdout
    checked = bloomery("config", "check", "--data", str(target))
    assert checked.returncode == 0, checked.stderr
    assert "fr (20), sw (20)" in checked.stdout
    again = bloomery("init", "--source", str(texts), "--output", str(target), "--no-probe", "--yes")
    assert again.returncode == 2
    assert "the file exists; expected: --force" in again.stderr


def test_an_existing_file_is_replaced_only_with_force(texts: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.yaml"
    target.write_text("mine")
    refused = invoke("--source", str(texts), "--output", str(target), "--no-probe")
    assert isinstance(refused.exception, ConfigError)
    assert target.read_text() == "mine"
    done = invoke("--source", str(texts), "--output", str(target), "--no-probe", "--force")
    assert done.exit_code == 0, done.exception
    assert yaml.safe_load(target.read_text())["name"] == "texts"


def test_the_default_file_has_the_name_of_the_run(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("--source", "texts", "--name", "mine", "--no-probe", "--json")
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["file"] == "mine.yaml"
    assert (tmp_path / "mine.yaml").is_file()


def test_rows_with_a_code_of_another_standard_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "一", "lang": "zh"}\n')
    done = invoke("--source", str(tmp_path / "a.jsonl"), "--output", str(tmp_path / "a.yaml"), "--no-probe")
    assert isinstance(done.exception, ConfigError)
    assert "expected: the language code 'zhs' or 'zht' in these rows" in str(done.exception)
    assert not (tmp_path / "a.yaml").exists()


def test_the_model_is_fitted_to_the_measured_speed(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe is replaced by one that returns a known speed. At this speed, the training must take the given time."""
    probed = []

    def probe(config: Any) -> Probe:
        from bloomery.spec.flops import iteration_flops
        from bloomery.spec.parameters import planned_rows

        probed.append(config.model.layers)
        one = iteration_flops(
            config.model, planned_rows(config), config.training.batch.micro_batch_size, recomputed=False
        )
        return Probe(one / 1e12, 0.0, 1.0, 8)

    monkeypatch.setattr("data_prep.new_run.estimate_duration.run_probe", probe)
    monkeypatch.setattr("data_prep.new_run.machine.this_machine", lambda: Machine(2, 1 << 34))
    monkeypatch.setattr("data_prep.new_run.machine.guess_flops", lambda _: 1e9)
    monkeypatch.setattr("data_prep.new_run.plan_run.estimate_text_bytes", lambda _: 10**9)
    target = tmp_path / "a.yaml"
    done = invoke("--source", str(texts), "--output", str(target), "--minutes", "200", "--json")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert len(probed) == 2  # the guessed speed was too low, so a larger model was chosen and timed
    assert probed[1] > probed[0]
    assert 0.7 * 12_000 < report["seconds"] <= 12_000
    assert "from steps of this model that were timed here" in target.read_text()


@pytest.mark.slow
def test_a_terminal_is_asked_for_what_no_option_states(texts: Path, tmp_path: Path) -> None:
    target = tmp_path / "asked.yaml"
    options = ["--output", str(target), "--no-probe", "--minutes", "3"]
    command = [sys.executable, "-m", "bloomery.cli", "init", *options]
    leader, follower = pty.openpty()
    # The lines answer the questions about source, name, languages, vocabulary, epochs, parameters and sequence length.
    # An empty line accepts the proposed value.
    os.write(leader, f"{texts}\nasked\nsw\n512\n2\n\n64\n".encode())
    try:
        done = subprocess.run(
            command, stdin=follower, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
        )
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(target.read_text())
    assert found["name"] == "asked"
    assert found["sources"][0]["paths"] == [str(texts / "sw.jsonl")]
    assert found["tokenizer"]["vocabulary_size"] == 512
    assert found["model"]["sequence_length"] == 64
    for question in ("Files, patterns or folders", "Languages to train on", "Number of epochs"):
        assert question in done.stderr
    assert "Time that the training" not in done.stderr
