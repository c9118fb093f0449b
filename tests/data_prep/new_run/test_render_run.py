"""The YAML of a new run: valid, commented and equal to the planned values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bloomery.checks.load_config import validate_config
from data_prep.new_run.machine import Machine
from data_prep.new_run.plan_run import plan_run
from data_prep.new_run.questions import Answers
from data_prep.new_run.render_run import NewRun, render_run

GPUS = Machine(64, 512 << 30, 8, "X", 80 << 30, has_bf16=True)


def run_of(folder: Path, machine: Machine, **given: Any) -> NewRun:
    rows = [{"text": "un", "lang": "fr", "id": "a"}, {"text": "moja", "lang": "sw", "id": "b"}]
    folder.mkdir(exist_ok=True)
    path = folder / "mixed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"source": [str(path)], **given}
    return plan_run(Answers(given, None), machine, 1e12, show=False)


@pytest.mark.parametrize("machine", [Machine(2, 1 << 33), GPUS])
@pytest.mark.parametrize("given", [{}, {"languages": ["fr"]}, {"name": "no", "epochs": 3.0, "parameters": 10**7}])
def test_the_text_says_what_the_values_say(tmp_path: Path, machine: Machine, given: dict[str, Any]) -> None:
    run = run_of(tmp_path, machine, **given)
    text = render_run(run, "Estimated on this machine: 1 min.")
    found = yaml.safe_load(text)
    for source in found["sources"]:
        assert source.pop("licence") == "unknown"
    assert found == run.values()
    assert validate_config(found).name == run.name
    assert max(map(len, text.splitlines())) <= 130


def test_choices_have_comments(tmp_path: Path) -> None:
    text = render_run(run_of(tmp_path, GPUS, vocabulary=512), "Estimated on this machine: 1 min.")
    for key in ("vocabulary_size", "train_samples", "precision", "learning_rate", "global_batch_size", "data:"):
        (line,) = [number for number, line in enumerate(text.splitlines()) if line.strip().startswith(key)]
        assert "#" in text.splitlines()[line] or "#" in text.splitlines()[line - 1], key
    assert "# as you asked; more entries" in text
    assert "# Estimated on this machine: 1 min." in text


def test_paths_that_yaml_would_misread_are_quoted(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a: b #c", GPUS)
    assert yaml.safe_load(render_run(run, ""))["sources"][0]["paths"] == run.sources[0]["paths"]
