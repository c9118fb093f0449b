"""A run with an existing tokenizer: what may be said of it, and what plans make of it."""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config import validate_config
from bloomery.config.run import RunConfig
from bloomery.config.section import Problem
from bloomery.config.site import Site
from bloomery.orchestration.rehearsal import rehearsal
from bloomery.spec.parameters import parameter_count, planned_rows
from bloomery.spec.weight_files import DTYPE_BYTES, INDEX_NAME, WEIGHTS_NAME, weight_files
from planner.notices import notices


def configuration(changes: dict[str, Any] | None = None, **tokenizer: Any) -> RunConfig:
    return validate_config(
        {
            "name": "test",
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"]}],
            "tokenizer": tokenizer,
            "model": {"layers": 2, "hidden_size": 64, "heads": 4, "sequence_length": 128},
            "training": {"train_samples": 64, "batch": {"global_batch_size": 8}, "optimizer": {"learning_rate": 1e-3}},
        }
        | (changes or {})
    )


def problems(**tokenizer: Any) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        configuration(**tokenizer)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reserved_tokens", 5),
        ("pre_tokenizer", "modern"),
        ("split_digits", True),
        ("min_frequency", 3),
        ("max_token_bytes", 16),
        ("max_pieces", 1000),
    ],
)
def test_what_only_training_decides_is_refused_beside_an_existing_tokenizer(key: str, value: Any) -> None:
    (problem,) = problems(existing="owner/name", **{key: value})
    assert problem.key == f"tokenizer.{key}"
    assert "tokenizer.existing gives one" in problem.reason
    assert configuration(**{key: value})


def test_a_limit_that_needs_counts_is_refused_beside_an_existing_tokenizer() -> None:
    (problem,) = problems(existing="owner/name", report={"gate": {"max_over_monolingual": 0.1}})
    assert problem.key == "tokenizer.report.gate.max_over_monolingual"
    assert configuration(report={"gate": {"max_over_monolingual": 0.1}})
    assert configuration(existing="owner/name", report={"gate": {"max_over_reference": 0.1, "max_parity": 2},
                                                        "references": [{"name": "a", "tokenizer": "b/c"}]})  # fmt: skip


def test_an_empty_name_is_no_tokenizer() -> None:
    (problem,) = problems(existing="")
    assert problem.key == "tokenizer.existing"


def test_defaults_that_were_written_out_are_no_wish() -> None:
    config = configuration(existing="owner/name", vocabulary_size=50_257)
    assert validate_config(config.model_dump(mode="json")) == config


def test_a_trained_tokenizer_has_its_own_end_of_document() -> None:
    (problem,) = problems(end_of_document="[SEP]")
    assert problem.key == "tokenizer.end_of_document"
    assert configuration(existing="owner/name", end_of_document="[SEP]")


def test_plans_count_with_the_stated_size_and_say_that_it_is_one() -> None:
    config = configuration(existing="owner/name", vocabulary_size=50_257)
    assert planned_rows(config) == 50_304
    found = {notice.key: notice for notice in notices(config)}
    assert found["tokenizer.vocabulary_size"].value == 50_257
    assert "owner/name" in found["tokenizer.vocabulary_size"].reason
    assert "tokenizer.vocabulary_size" not in {notice.key for notice in notices(configuration())}


def test_weights_are_split_whatever_number_of_entries_the_tokenizer_has() -> None:
    large = {"model": {"layers": 1, "hidden_size": 8192, "heads": 64, "sequence_length": 128}}
    config = configuration(large, existing="owner/name")
    found = weight_files(config)
    assert found.file == INDEX_NAME
    fewest = parameter_count(config.model, 1) * DTYPE_BYTES[config.export.dtype]
    assert found.shard_bytes < fewest
    assert weight_files(configuration(existing="owner/name")).file == WEIGHTS_NAME


def test_a_small_existing_vocabulary_is_allowed_and_a_rehearsal_keeps_the_tokenizer() -> None:
    config = configuration(existing="owner/name", vocabulary_size=300)
    values = rehearsal(config, Site(), 1)
    assert values["tokenizer"] == {"existing": "owner/name", "vocabulary_size": 300}
    assert validate_config(values).tokenizer == config.tokenizer
