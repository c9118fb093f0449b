"""Test the report of contradictions between sections of a configuration."""

from __future__ import annotations

import time

import pytest
from changed_sample import changed, message


def test_contradictions_are_reported_with_wrong_values_but_not_caused_by_them() -> None:
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
        "sources[1].kind: 'jsnl' is not valid; expected: one of 'jsonl', 'parquet'",
        "sources[2]: 'foo'",
        "publish: 5",
        "hidden_size 33 must be divisible by heads 4",
        "model.heads 4 must be divisible by training.parallel.tensor 3",
        "model.layers 3 cannot fill the pipeline stages of training.parallel.pipeline 9",
        "batch sizes 16 are not divisible by micro_batch_size x parallel.data = 3 x 1",
        "several sources have the name 's'",
    ):
        assert text.count(part) == 1, part
    # train_samples and learning_rate are invalid, so checks that use these two values must not report anything.
    for part in ("min_learning_rate", "warmup_samples", "first batch"):
        assert part not in text
    assert text.startswith(f"my.yaml: {len(text.splitlines()) - 1} problems")


@pytest.mark.parametrize("dimension", ["tensor", "pipeline", "data"])
def test_an_impossible_number_of_ranks_is_refused_at_once(dimension: str) -> None:
    before = time.process_time()
    text = message(changed(training__parallel={dimension: 10**9}))
    assert f"training.parallel.{dimension}: 1000000000 is not valid; expected: a whole number above 0 and" in text
    assert time.process_time() - before < 5


@pytest.mark.parametrize("code", ["../../evil", "a/b", "fr|x", "f r", "<b>", "fr\n", "", "1", "x" * 33, "é"])
def test_a_language_code_that_is_no_name_is_refused(code: str) -> None:
    source = {"name": "s", "kind": "jsonl", "paths": ["x"]}
    text = message(changed(sources=[source | {"language": code}]))
    assert "sources[0].language: " in text
    assert "expected: a language code of at most 32 letters, digits, `-` and `_`, such as 'fr'" in text
    text = message(changed(sources=[source], corpus__mixture={"weights": {code: 1.0}}))
    assert "a language code of at most 32 letters" in text
