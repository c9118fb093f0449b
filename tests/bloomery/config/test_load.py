"""Test that all errors of a configuration are reported at once, each with key path, value and expected value."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from changed_sample import SAMPLE, changed, message
from repository import ROOT

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import load_config, validate_config


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_file_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOOMERY_CORPUS", "BLOOMERY_TOKENS"):
        monkeypatch.setenv(name, "/data")
    assert load_config(path).name


def test_an_unknown_key_suggests_the_nearest_known_key() -> None:
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


def test_all_problems_are_reported_at_once() -> None:
    text = message(
        changed(model__layers=0, tokenizer__alpha=1, export__dtype="int8", seed=-1, corpus__mixture__alpha=2)
    )
    assert text.startswith("my.yaml: 5 problems\n")
    for part in (
        "model.layers: 0 is not valid; expected",
        "tokenizer.alpha: unknown key",
        "export.dtype: 'int8'",
        "seed: -1",
    ):
        assert part in text
    assert "corpus.mixture.alpha: 2" in text


def test_environment_variables_are_expanded_and_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_missing_or_invalid_configuration_file_is_refused(tmp_path: Path) -> None:
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


def test_sizes_are_read_with_their_units() -> None:
    ingest = validate_config(
        changed(corpus__ingest={"shard_bytes": "2 MB", "max_document_bytes": "64KiB"})
    ).corpus.ingest
    assert (ingest.shard_bytes, ingest.max_document_bytes) == (2_000_000, 65_536)
    assert "a size such as" in message(changed(corpus__ingest__shard_bytes="much"))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("training.optimizer.learning_rate", float("inf"), "a finite number"),
        ("corpus.mixture.weights", {"fr": float("nan")}, "corpus.mixture.weights.fr: nan"),
        ("corpus.judge.thresholds", {"fr": {"min_words": float("-inf")}}, "a finite number"),
        ("training.train_samples", True, "a number, not true or false"),
        ("training.optimizer.warmup_samples", False, "a number, not true or false"),
        ("corpus.mixture.weights", {"fr": True}, "a number, not true or false"),
        ("training.peak_tflops", True, "a number, not true or false"),
        ("sources.0.language", "", "a language code"),
        ("sources.0.language", " ", "a language code"),
        ("root", "", "a folder such as 'runs'"),
        ("root", "  ", "a folder such as 'runs'"),
        ("root", "a{b}", "a folder such as 'runs'"),
        ("name", "n" * 101, "at most 100 characters"),
        ("sources.0.name", "n" * 101, "at most 100 characters"),
        ("training.optimizer.beta1", 1.0, "a number of at least 0 and below 1, for example 0.9"),
        ("training.optimizer.beta2", 1.0, "a number of at least 0 and below 1, for example 0.95"),
        ("seed", 2**63, "a whole number of at least 0 and below 2^63, for example 42"),
        ("tokenizer.vocabulary_size", 2**24 + 1, "a whole number of at least 260 and at most 2^24, for example 250680"),
        ("corpus.dedup.partitions", 513, "a whole number above 0 and at most 512, for example 1"),
        ("publish.owner", "a/b", "publish.owner: 'a/b' is not valid"),
        ("training.batch.rampup", {"start": 8, "increment": 8, "samples": 10**9}, "exceeds train_samples"),
        ("corpus.judge.thresholds", {"fr": {"min_words": 9, "max_words": 3}}, "min_words 9 exceeds max_words 3"),
        ("corpus.judge.thresholds", {"default": {"min_mean_word_length": 99}}, "min_mean_word_length 99 exceeds"),
        (
            "corpus.measure.words",
            {"frr": {}},
            ".frr: unknown language code 'frr' (did you mean 'fr'?)",
        ),
        ("corpus.measure.words", {"hi": {"stop_words": ["आप, तुम"]}}, "no comma, bracket, byte order mark"),
        (
            "corpus.judge.thresholds",
            {"frr": {}},
            ".frr: unknown language code 'frr' (did you mean 'fr'?)",
        ),
    ],
)
def test_impossible_values_are_refused(key: str, value: Any, says: str) -> None:
    raw = copy.deepcopy(SAMPLE)
    place: Any = raw
    *sections, last = key.split(".")
    for part in sections:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[last] = value
    text = message(raw)
    assert key.replace("sources.0", "sources[0]").removeprefix("training.") in text
    assert says in text


def test_a_language_that_a_source_declares_may_have_thresholds() -> None:
    raw = changed(corpus__judge={"thresholds": {"frr": {"min_words": 3}}})
    raw["sources"][0]["language"] = "frr"
    assert validate_config(raw).corpus.judge.thresholds["frr"].min_words == 3


def test_empty_and_malformed_configurations_raise_one_error() -> None:
    assert "name: missing" in message({})
    for raw in ({1: 2}, {"model": {1: 2}}, {"sources": {}}, {"sources": []}, {"sources": [{}]}, {"training": [1]}):
        assert "problems" in message(raw)
    assert "corpus.judge.thresholds" in message(changed(corpus__judge={"thresholds": {1: {}, "fr": 5}}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("? [a]\n: 1\n", "a key must be a word, not a list or a mapping"),
        ("? {a: 1}\n: 1\n", "a key must be a word, not a list or a mapping"),
        ("a: &a [*a]\n", "an anchor contains itself"),
        ("a: &a {b: *a}\n", "an anchor contains itself"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested deeper than 50 levels"),
        ("a: " + "[" * 60 + "]" * 60, "nested deeper than 50 levels"),
        ("a: 2024-99-99\n", "not valid YAML"),
        (
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "more than",
        ),
    ],
)
def test_yaml_with_cycles_deep_nesting_or_complex_keys_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_config(path)
