"""Errors of a configuration: all at once, each with its key path, its value and what would be right."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import ConfigError
from bloomery.config import load_config, validate_config

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
    for name in ("BLOOMERY_CORPUS", "BLOOMERY_TOKENS"):
        monkeypatch.setenv(name, "/data")
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
    assert "cannot fill training.parallel.pipeline 8 stages; expected: at most 4 stages" in message(
        changed(training__parallel__pipeline=8)
    )
    assert "8 not divisible by micro_batch_size x parallel.data = 16 x 1" in message(
        changed(training__batch__micro_batch_size=16)
    )
    growing = {"micro_batch_size": 2, "global_batch_size": 16, "rampup": {"start": 8, "increment": 4, "samples": 64}}
    for changes, said in {
        ((16, 4), (12, 4)): "from_batch 12 does not come after 16 on the way from a batch of 8 to one of 16",
        ((8, 4),): "from_batch 8 does not come after 8",
        ((20, 4),): "from_batch 20 does not come after 8",
        ((12, 8),): "12 not divisible by micro_batch_size x parallel.data = 8 x 1",
    }.items():
        listed = [{"from_batch": batch, "size": size} for batch, size in changes]
        assert said in message(changed(training__batch=growing | {"micro_batch_changes": listed}))
    steady = {"global_batch_size": 16, "micro_batch_changes": [{"from_batch": 16, "size": 4}]}
    assert "expected: no micro_batch_changes without a ramp-up" in message(changed(training__batch=steady))
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
        ("training.optimizer.beta1", 1.0, "less than 1"),
        ("training.optimizer.beta2", 1.0, "less than 1"),
        ("seed", 2**63, "less than 9223372036854775808"),
        ("tokenizer.vocabulary_size", 2**24 + 1, "less than or equal to 16777216"),
        ("corpus.dedup.partitions", 513, "less than or equal to 512"),
        ("publish.owner", "a/b", "publish.owner: 'a/b' is not right"),
        ("training.batch.rampup", {"start": 8, "increment": 8, "samples": 10**9}, "exceeds train_samples"),
        ("corpus.judge.thresholds", {"fr": {"min_words": 9, "max_words": 3}}, "min_words 9 exceeds max_words 3"),
        ("corpus.judge.thresholds", {"default": {"min_mean_word_length": 99}}, "min_mean_word_length 99 exceeds"),
        ("corpus.measure.words", {"frr": {}}, "corpus.measure.words.frr: unknown language (did you mean 'fr'?)"),
        ("corpus.measure.words", {"hi": {"stop_words": ["आप, तुम"]}}, "no comma, gloss, byte order mark"),
        ("corpus.judge.thresholds", {"frr": {}}, "corpus.judge.thresholds.frr: unknown language (did you mean 'fr'?)"),
    ],
)
def test_values_that_no_run_can_have_are_refused(key: str, value: Any, says: str) -> None:
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


def test_contradictions_come_with_the_wrong_values_and_never_from_them() -> None:
    raw = changed(
        name="a/b",
        seed="x",
        model={"layers": 3, "hidden_size": 33, "heads": 4, "sequence_length": 4},
        training__train_samples=0,
        training__parallel={"tensor": 3, "pipeline": 9},
        training__batch={"micro_batch_size": 3, "global_batch_size": 16, "rampup": {"start": 5}},
        training__optimizer={"learning_rate": "much", "min_learning_rate": 5, "warmup_samples": 9},
        sources=[{"name": "s", "kind": "jsonl"}, {"name": "s", "kind": "jsnl"}, "foo"],
        publish=5,
    )
    text = message(raw)
    for part in (
        "name: 'a/b'",
        "seed: 'x'",
        "model.sequence_length: 4",
        "training.train_samples: 0",
        "training.batch.rampup.increment: missing",
        "sources[0].paths: missing",
        "sources[1]: ",
        "sources[2]: 'foo'",
        "publish: 5",
        "hidden_size 33 must be divisible by heads 4",
        "model.heads 4 must be divisible by training.parallel.tensor 3",
        "model.layers 3 cannot fill training.parallel.pipeline 9",
        "16 not divisible by micro_batch_size x parallel.data = 3 x 1",
        "the name 's' is used twice",
    ):
        assert text.count(part) == 1, part
    # train_samples and learning_rate are wrong themselves.
    for part in ("min_learning_rate", "warmup_samples", "first batch"):
        assert part not in text
    assert text.startswith(f"my.yaml: {len(text.splitlines()) - 1} problems")


def test_empty_and_odd_documents_end_in_one_message() -> None:
    assert "name: missing" in message({})
    for raw in ({1: 2}, {"model": {1: 2}}, {"sources": {}}, {"sources": []}, {"sources": [{}]}, {"training": [1]}):
        assert "problems" in message(raw)
    assert "corpus.judge.thresholds" in message(changed(corpus__judge={"thresholds": {1: {}, "fr": 5}}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("? [a]\n: 1\n", "a key is a list or a mapping"),
        ("? {a: 1}\n: 1\n", "a key is a list or a mapping"),
        ("a: &a [*a]\n", "an anchor holds itself"),
        ("a: &a {b: *a}\n", "an anchor holds itself"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested deeper than 50 levels"),
        ("a: " + "[" * 60 + "]" * 60, "nested deeper than 50 levels"),
        ("a: 2024-99-99\n", "not valid YAML"),
        (
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "more than",
        ),
    ],
)
def test_yaml_that_is_no_tree_of_words_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_config(path)


def test_token_files_need_the_tokenizer_that_wrote_them() -> None:
    tokens = {"name": "tokens", "kind": "megatron", "paths": ["data/fr_text_document"], "language": "fr"}
    text = message(changed(sources=[tokens]))
    assert "tokenizer.existing: null, but sources[0].kind megatron" in text
    assert "expected: the tokenizer that the token files were encoded with" in text
    del tokens["language"]
    assert "sources[0].language: missing" in message(
        changed(sources=[tokens], tokenizer={"existing": "data/tokenizer"})
    )
    tokens["language"] = "fr"
    config = validate_config(changed(sources=[tokens], tokenizer={"existing": "data/tokenizer"}))
    assert [source.name for source in config.adopted_sources] == ["tokens"]
    assert config.text_sources == []
