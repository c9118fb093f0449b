"""Errors of a configuration: all at once, each with its key path, its value and what would be right."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bloomery.base.errors import ConfigError
from bloomery.config import load_config, validate_config

ROOT = Path(__file__).parents[3]
SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def changed(**changes: Any) -> dict[str, Any]:
    """The sample with `a__b=value` put at `a.b`."""
    value = copy.deepcopy(SAMPLE)
    for path, new in changes.items():
        place, keys = value, path.split("__")
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = new
    return value


def message(raw: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        validate_config(raw, where="my.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_file_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOOMERY_CORPUS", "/data")
    assert load_config(path).name


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    assert "model.hidden: unknown key (value 64); did you mean 'model.hidden_size'?" in message(
        changed(model__hidden=64)
    )
    text = message(changed(training__warmup_samples=10))
    assert "training.warmup_samples: unknown key" in text
    assert "did you mean 'training.optimizer.warmup_samples'?" in text
    assert "corpus.judge.thresholds.fr.min_character: unknown key" in message(
        changed(corpus__judge={"thresholds": {"fr": {"min_character": 3}}})
    )


def test_a_key_of_another_kind_of_source_is_unknown() -> None:
    text = message(changed(sources=[{"name": "a", "kind": "jsonl", "paths": ["x"], "dataset": "y"}]))
    assert "sources[0].dataset: unknown key" in text


def test_all_problems_come_at_once() -> None:
    text = message(
        changed(model__layers=0, tokenizer__alpha=1, export__dtype="int8", seed=-1, corpus__mixture__alpha=2)
    )
    assert text.startswith("my.yaml: 5 problems\n")
    for part in (
        "model.layers: 0 is not right; expected",
        "tokenizer.alpha: unknown key",
        "export.dtype: 'int8'",
        "seed: -1",
    ):
        assert part in text
    assert "corpus.mixture.alpha: 2" in text


def test_contradictions_say_what_would_be_right() -> None:
    assert "hidden_size 130 must be divisible by heads 4; 132 would be" in message(changed(model__hidden_size=130))
    assert "model.heads 3 must be divisible by training.parallel.tensor 2" in message(
        changed(model__heads=3, model__hidden_size=96)
    )
    assert "cannot fill training.parallel.pipeline 8 stages; at most 4 stages" in message(
        changed(training__parallel__pipeline=8)
    )
    assert "8 not divisible by micro_batch_size x parallel.data = 16 x 1" in message(
        changed(training__batch__micro_batch_size=16)
    )
    assert "warmup_samples 9999 exceeds" in message(changed(training__optimizer__warmup_samples=9999))
    assert "train_samples 7 does not fill the first batch of 8" in message(changed(training__train_samples=7))
    assert "used twice" in message(changed(sources=SAMPLE["sources"] * 2))


def test_bert12s_published_warmup_is_refused() -> None:
    # A published script warmed up over .16 x 63,600 = 10,176 of 6,400 iterations at batch 8,192.
    text = message(
        changed(
            training__train_samples=6400 * 8192,
            training__optimizer__warmup_samples=10176 * 8192,
            training__batch={"micro_batch_size": 4, "global_batch_size": 8192},
        )
    )
    assert "the peak is never reached" in text


def test_an_environment_variable_is_put_in_and_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = changed(sources=[{"name": "a", "kind": "jsonl", "paths": ["${BLOOMERY_TEST_FOLDER}/*.jsonl"]}])
    monkeypatch.delenv("BLOOMERY_TEST_FOLDER", raising=False)
    assert "sources[0].paths[0]: environment variable BLOOMERY_TEST_FOLDER is not set" in message(raw)
    monkeypatch.setenv("BLOOMERY_TEST_FOLDER", "/somewhere")
    assert validate_config(raw).sources[0].paths == ["/somewhere/*.jsonl"]  # type: ignore[union-attr]


def test_a_key_written_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("name: a\nmodel:\n  layers: 1\n  layers: 2\n")
    with pytest.raises(ConfigError, match="the key 'layers' is written twice"):
        load_config(path)


def test_what_is_no_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "absent.yaml")
    path = tmp_path / "x.yaml"
    path.write_text("- 1\n")
    with pytest.raises(ConfigError, match="not a mapping"):
        load_config(path)
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_config(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):
        load_config(path)


def test_sizes_have_units() -> None:
    ingest = validate_config(
        changed(corpus__ingest={"shard_bytes": "2 MB", "max_document_bytes": "64KiB"})
    ).corpus.ingest
    assert (ingest.shard_bytes, ingest.max_document_bytes) == (2_000_000, 65_536)
    assert "a size such as" in message(changed(corpus__ingest__shard_bytes="much"))
