"""Test that the YAML of a new run is valid, has comments and holds the planned values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bloomery.checks.load_config import validate_config
from bloomery.contracts.index_size import index_size, planned_text, planned_validation_sets
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
def test_the_yaml_holds_the_planned_values(tmp_path: Path, machine: Machine, given: dict[str, Any]) -> None:
    run = run_of(tmp_path, machine, **given)
    text = render_run(run, "Estimated training time on this machine: 1 min.")
    found = yaml.safe_load(text)
    for source in found["sources"]:
        assert source.pop("licence") == "unknown"
    assert found == run.values()
    assert validate_config(found).name == run.name
    assert max(map(len, text.splitlines())) <= 130


def test_choices_have_comments(tmp_path: Path) -> None:
    text = render_run(run_of(tmp_path, GPUS, vocabulary=512), "Estimated training time on this machine: 1 min.")
    for key in ("vocabulary_size", "train_samples", "precision", "learning_rate", "global_batch_size", "data:"):
        (line,) = [number for number, line in enumerate(text.splitlines()) if line.strip().startswith(key)]
        assert "#" in text.splitlines()[line] or "#" in text.splitlines()[line - 1], key
    assert "# as you asked; with a larger vocabulary" in text
    assert "# Estimated training time on this machine: 1 min." in text


def test_paths_that_yaml_would_misread_are_quoted(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a: b #c", GPUS)
    assert yaml.safe_load(render_run(run, ""))["sources"][0]["paths"] == run.sources[0]["paths"]


def texts(folder: Path, **given: Any) -> NewRun:
    """Return a run on 2 MB of text."""
    path = folder / "fr.jsonl"
    path.write_text("".join(json.dumps({"text": f"{number} mots " * 100}) + "\n" for number in range(2000)))
    return plan_run(Answers({"source": [str(path)], **given}, None), Machine(2, 1 << 33), 1e9, show=False)


def test_the_length_is_in_epochs_if_the_user_or_the_text_limits_it(tmp_path: Path) -> None:
    asked = texts(tmp_path, epochs=1.5).values()
    assert asked["training"]["train_epochs"] == 1.5
    assert texts(tmp_path, minutes=10**6).values()["training"]["train_epochs"] == 4
    config = validate_config(asked)
    assert config.training.train_samples * config.model.sequence_length == pytest.approx(
        1.5 * asked["plan"]["corpus_tokens"], rel=0.01
    )


def test_the_length_is_in_samples_if_the_time_limits_it(tmp_path: Path) -> None:
    values = texts(tmp_path, minutes=1).values()
    assert "train_epochs" not in values["training"]
    assert values["training"]["train_samples"] > 0
    assert "use train_epochs instead" in render_run(texts(tmp_path, minutes=1), "")


def test_the_plan_gets_the_estimates_from_which_sizes_are_computed(tmp_path: Path) -> None:
    assert texts(tmp_path).values()["plan"]["corpus_documents"] == pytest.approx(2000, rel=0.1)
    run = run_of(tmp_path, GPUS)
    config = validate_config(run.values())
    assert (config.plan.corpus_tokens, config.plan.corpus_documents, config.plan.corpus_languages) == (2, 2, 2)
    text = planned_text(config)
    assert text.assumed == {}
    assert index_size(config, text, planned_validation_sets(config, text)).total > 0
    assert run_of(tmp_path, GPUS, languages=["fr"]).values()["plan"]["corpus_documents"] == 1


def test_a_text_of_less_than_a_batch_gives_one_batch(tmp_path: Path) -> None:
    training = run_of(tmp_path, GPUS, epochs=1.0).values()["training"]
    assert training["train_samples"] == training["batch"]["global_batch_size"]
