"""Test that only `${NAME}` is printed, and never the value of an environment variable that the YAML uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed_sample import changed
from command_line import bloomery

SECRET = "hf_planted'Secret\\42"
NUMBER = "737"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write the sample's configuration with changed keys to a file."""

    def write(**changes: Any) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump(changed(**changes), sort_keys=False))
        return path

    return write


def call(*words: str) -> str:
    environment = os.environ | {"HF_TOKEN": SECRET, "PLANTED_NUMBER": NUMBER}
    done = bloomery(*words, env=environment)
    said = done.stdout + done.stderr
    assert "planted" not in said, said
    assert "Traceback" not in said
    return said


def test_show_prints_the_text_as_written(written: Callable[..., Path]) -> None:
    source = {"name": "s", "kind": "jsonl", "paths": ["${HF_TOKEN}/*.jsonl"]}
    path = written(sources=[source], tokenizer={"existing": "${HF_TOKEN}"})
    for words in (["--json"], []):
        said = call("config", "show", str(path), *words)
        assert "${HF_TOKEN}/*.jsonl" in said
        assert yaml.safe_load(said)["tokenizer"]["existing"] == "${HF_TOKEN}"


def test_show_prints_a_number_as_written(written: Callable[..., Path]) -> None:
    said = call("config", "show", str(written(seed="${PLANTED_NUMBER}")))
    assert yaml.safe_load(said)["seed"] == "${PLANTED_NUMBER}"
    assert NUMBER not in said


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "${HF_TOKEN}"},
        {"name": "x" * 101 + "${HF_TOKEN}"},
        {"sources": [{"name": "s", "kind": "${HF_TOKEN}", "paths": ["x"]}]},
        {"sources": [{"name": "s", "kind": "jsonl", "paths": "${HF_TOKEN}"}]},
        {"sources": {"a": {"b": "${HF_TOKEN}"}}},
        {
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"], "recipe": "a"}],
            "corpus": {"token": "${HF_TOKEN}"},
        },
        {"training__optimizer__learning_rate": "1${HF_TOKEN}"},
        {"corpus__mixture__weights": {"fr": "${HF_TOKEN}"}},
        {"catalogue": "${HF_TOKEN}.csv"},
        {"catalogue": "${HF_TOKEN}"},
        {"root": "{${HF_TOKEN}}"},
    ],
    ids=str,
)
def test_an_error_shows_the_text_as_written(written: Callable[..., Path], changes: dict[str, Any]) -> None:
    path = str(written(**changes))
    for words in (["config", "check"], ["config", "show"], ["plan", "show"], ["plan", "show", "--json"]):
        said = call(*words, path)
        if words[0] != "plan":
            assert "HF_TOKEN" in said or "x" * 50 in said, said


def test_the_summary_of_a_check_shows_the_text_as_written(written: Callable[..., Path]) -> None:
    assert "${HF_TOKEN}/runs/" in call("config", "check", str(written(root="${HF_TOKEN}/runs")))


def test_a_catalogue_hides_values_too(tmp_path: Path, written: Callable[..., Path]) -> None:
    table = tmp_path / "sources.csv"
    table.write_text("name,kind,paths,weight\na,jsonl,${HF_TOKEN}/x,\nb,jsonl,y,${HF_TOKEN}\n")
    said = call("config", "check", str(written(catalogue=str(table), sources=[])))
    assert "line 3, column weight: '${HF_TOKEN}' is not valid" in said
    table.write_text("name,kind,paths,weight\na,jsonl,${HF_TOKEN}/x,\n")
    assert "${HF_TOKEN}/x" in call("config", "show", str(written(catalogue=str(table), sources=[])))
