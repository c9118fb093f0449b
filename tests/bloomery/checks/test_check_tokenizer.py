"""Test that contradictory tokenizer settings are refused, also with an existing tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
from changed_sample import changed, message
from tiny_run import configuration

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.config.section import Problem


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
def test_keys_of_tokenizer_training_are_refused_with_an_existing_tokenizer(key: str, value: Any) -> None:
    (problem,) = problems(existing="owner/name", **{key: value})
    assert problem.key == f"tokenizer.{key}"
    assert "applies only to a tokenizer that the run trains, but tokenizer.existing is set" in problem.reason
    assert configuration(**{key: value})


def test_max_over_monolingual_is_refused_with_an_existing_tokenizer() -> None:
    (problem,) = problems(existing="owner/name", report={"gate": {"max_over_monolingual": 0.1}})
    assert problem.key == "tokenizer.report.gate.max_over_monolingual"
    assert configuration(report={"gate": {"max_over_monolingual": 0.1}})
    assert configuration(existing="owner/name", report={"gate": {"max_over_reference": 0.1, "max_parity": 2},
                                                        "references": [{"name": "a", "tokenizer": "b/c"}]})  # fmt: skip


def test_an_empty_tokenizer_name_is_refused() -> None:
    (problem,) = problems(existing="")
    assert problem.key == "tokenizer.existing"


def test_written_out_defaults_are_accepted_with_an_existing_tokenizer() -> None:
    config = configuration(existing="owner/name", vocabulary_size=50_257)
    assert validate_config(config.model_dump(mode="json")) == config


def test_end_of_document_is_refused_for_a_trained_tokenizer() -> None:
    (problem,) = problems(end_of_document="[SEP]")
    assert problem.key == "tokenizer.end_of_document"
    assert configuration(existing="owner/name", end_of_document="[SEP]")


def test_token_files_require_an_existing_tokenizer_and_a_language() -> None:
    tokens = {"name": "tokens", "kind": "megatron", "paths": ["data/fr_text_document"], "language": "fr"}
    text = message(changed(sources=[tokens]))
    assert "tokenizer.existing is null, but sources[0].kind is 'megatron'" in text
    assert "expected: the tokenizer that encoded the token files" in text
    del tokens["language"]
    assert "sources[0].language: missing" in message(
        changed(sources=[tokens], tokenizer={"existing": "data/tokenizer"})
    )
    tokens["language"] = "fr"
    config = validate_config(changed(sources=[tokens], tokenizer={"existing": "data/tokenizer"}))
    assert [source.name for source in config.adopted_sources] == ["tokens"]
    assert config.text_sources == []
