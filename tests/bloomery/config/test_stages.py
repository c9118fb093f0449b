"""Test that a stage's section changes exactly when a key that the stage reads changes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.atomic import write_json
from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.config.corpus import Thresholds
from bloomery.config.stages import IngestStage, JudgeStage, TrainStage, read_stage, write_stage
from bloomery.orchestration.stage_sections import ingest_stage, stage_sections
from bloomery.spec.batch import samples_to_read

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def sections(path: str = "", new: Any = None) -> dict[str, Any]:
    raw = copy.deepcopy(SAMPLE)
    if path:
        place, keys = raw, path.split(".")
        for key in keys[:-1]:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[keys[-1]] = new
    config = validate_config(raw)
    parts = {name: section.model_dump(mode="json") for name, section in stage_sections(config).items()}
    parts["ingest"] = ingest_stage(config, config.sources[0], 0, ["a.jsonl"]).model_dump(mode="json")
    return parts


@pytest.mark.parametrize(
    ("path", "new", "stages"),
    [
        ("corpus.ingest.max_document_bytes", 2048, {"ingest"}),
        ("corpus.language_id.min_share", 0.5, {"judge"}),
        ("corpus.judge.thresholds", {"fr": {"min_words": 3}}, {"judge"}),
        ("corpus.judge.recipes", {"gentle": {"min_words": 3}}, set()),
        ("corpus.measure.words", {"fr": {"stop_words": ["plutôt"]}}, {"measure"}),
        ("corpus.code.licences", ["MIT"], {"judge"}),
        ("sources.0.licence_field", "license", {"measure"}),
        ("corpus.dedup.near.bands", 7, {"measure", "dedup"}),
        ("corpus.dedup.exact", False, {"dedup"}),
        ("corpus.lines.enabled", True, {"clean"}),
        ("corpus.decontaminate.paths", ["evaluation.jsonl"], {"clean"}),
        ("corpus.lines.min_characters", 20, {"lines"}),
        ("corpus.lines.min_documents", 3, {"repeated_lines"}),
        ("corpus.lines.partitions", 2, {"lines", "repeated_lines"}),
        ("sources.0.min_line_documents", 2, {"repeated_lines"}),
        ("corpus.pii.kinds", ["ip"], {"clean"}),
        ("corpus.mixture.alpha", 0.5, {"mixture"}),
        ("corpus.mixture.weights", {"fr": 0.5}, {"mixture"}),
        ("corpus.mixture.max_epochs", 4, {"mixture"}),
        ("corpus.mixture", {"method": "unimax", "max_epochs": 4}, {"mixture"}),
        ("sources.0.weight", 2.0, {"mixture"}),
        ("tokenizer.min_frequency", 5, {"tokenizer"}),
        ("index.validation_share", 0.2, {"index"}),
        ("model.layers", 6, {"train", "export"}),
        ("training.optimizer.learning_rate", 1e-3, {"train"}),
        ("training.train_samples", 4000, {"index", "train"}),
        ("training.validation.samples", 4, {"index", "train"}),
        ("export.dtype", "float32", {"export"}),
        ("publish.private", False, {"publish"}),
        ("sources.0.licence", "MIT", {"export"}),
        ("sources.0.priority", 3, {"dedup"}),
        ("sources.0.trust_language", True, {"judge"}),
        ("sources.0.text_field", "body", {"ingest"}),
        ("root", "elsewhere", set()),
    ],
)
def test_a_key_changes_only_the_sections_of_its_stages(path: str, new: Any, stages: set[str]) -> None:
    before, after = sections(), sections(path, new)
    assert {name for name in before if before[name] != after[name]} == stages


def test_a_recipe_changes_the_thresholds_of_its_sources_in_every_language() -> None:
    raw = copy.deepcopy(SAMPLE)
    raw["corpus"]["judge"] = {
        "thresholds": {"fr": {"min_words": 7}},
        "recipes": {"gentle": {"min_words": 3, "max_special_ratio": None}, "unused": {}},
    }
    raw["sources"].append({"name": "small", "kind": "jsonl", "paths": ["x"], "recipe": "gentle"})
    judge = stage_sections(validate_config(raw))["judge"]
    assert isinstance(judge, JudgeStage)
    assert set(judge.recipes) == {"gentle"}
    for language in ("fr", "en", "code", "an unknown one"):
        usual, gentle = judge.limits("sample", language), judge.limits("small", language)
        changed = {name for name in Thresholds.model_fields if getattr(usual, name) != getattr(gentle, name)}
        assert changed <= {"min_words", "max_special_ratio"}, language
        assert (gentle.min_words, gentle.max_special_ratio) == (3, None)
    assert judge.limits("sample", "fr").min_words == 7


def test_a_recipe_that_no_document_can_pass_is_refused_once() -> None:
    raw = copy.deepcopy(SAMPLE)
    raw["corpus"]["judge"] = {"recipes": {"odd": {"min_words": 9, "max_words": 3}}}
    with pytest.raises(ConfigError) as caught:
        validate_config(raw)
    assert str(caught.value).count("corpus.judge.recipes.odd: min_words 9 exceeds max_words 3 for the language") == 1
    assert "1 problem\n" in str(caught.value)


def test_the_index_holds_only_samples_that_fill_whole_batches() -> None:
    config = validate_config(SAMPLE)
    expected = samples_to_read(config.training.batch, config.training.train_samples)
    assert sections()["index"]["train_samples"] == expected <= config.training.train_samples


def test_a_section_is_written_once_and_read_back(tmp_path: Path) -> None:
    config = validate_config(SAMPLE)
    stage = ingest_stage(config, config.sources[0], 3, ["a.jsonl"])
    path = tmp_path / "ingest.json"
    assert write_stage(path, stage)
    assert not write_stage(path, stage)
    assert read_stage(path, IngestStage) == stage


@pytest.mark.parametrize(("old", "new"), [(True, "full"), (False, "none")])
def test_a_train_section_of_version_0_1_0_can_still_be_read(tmp_path: Path, old: bool, new: str) -> None:
    written = sections()["train"]
    written["training"]["activation_checkpointing"] = old
    write_json(tmp_path / "train.json", written)
    assert read_stage(tmp_path / "train.json", TrainStage).training.activation_checkpointing == new
