"""A stage's part changes exactly when what it reads changes (house decision 2)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bloomery.config import validate_config
from bloomery.config.stages import IngestStage, ingest_stage, read_stage, stage_sections, write_stage
from bloomery.plan.batch import samples_to_read

ROOT = Path(__file__).parents[3]
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
        ("corpus.dedup.near.bands", 7, {"measure", "dedup"}),
        ("corpus.dedup.exact", False, {"dedup"}),
        ("corpus.pii.kinds", ["ip"], {"clean"}),
        ("corpus.mixture.alpha", 0.5, {"mixture"}),
        ("tokenizer.min_frequency", 5, {"tokenizer"}),
        ("index.validation_share", 0.2, {"index"}),
        ("model.layers", 6, {"train", "export"}),
        ("training.optimizer.learning_rate", 1e-3, {"train", "export"}),
        ("training.train_samples", 4000, {"index", "train", "export"}),
        ("training.validation.samples", 4, {"index", "train", "export"}),
        ("export.dtype", "float32", {"export"}),
        ("publish.private", False, {"publish"}),
        ("sources.0.licence", "MIT", {"export"}),
        ("sources.0.priority", 3, {"dedup"}),
        ("sources.0.trust_language", True, {"judge"}),
        ("sources.0.text_field", "body", {"ingest"}),
        ("root", "elsewhere", set()),
    ],
)
def test_a_key_reaches_its_own_stages_only(path: str, new: Any, stages: set[str]) -> None:
    before, after = sections(), sections(path, new)
    assert {name for name in before if before[name] != after[name]} == stages


def test_the_index_holds_what_the_last_batch_reads() -> None:
    config = validate_config(SAMPLE)
    expected = samples_to_read(config.training.batch, config.training.train_samples)
    assert sections()["index"]["train_samples"] == expected <= config.training.train_samples


def test_a_part_is_written_once_and_read_back(tmp_path: Path) -> None:
    config = validate_config(SAMPLE)
    stage = ingest_stage(config, config.sources[0], 3, ["a.jsonl"])
    path = tmp_path / "ingest.json"
    assert write_stage(path, stage)
    assert not write_stage(path, stage)
    assert read_stage(path, IngestStage) == stage
