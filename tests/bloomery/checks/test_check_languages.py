"""Test the checks of sources' language codes, and of mixture weights for languages that no source has."""

from __future__ import annotations

from typing import Any

import pytest
from changed_sample import changed, message

from bloomery.checks.load_config import validate_config


def source(**keys: Any) -> dict[str, Any]:
    return {"name": "s", "kind": "jsonl", "paths": ["x.jsonl"], **keys}


@pytest.mark.parametrize(("code", "right"), [("zh", "zhs or zht"), ("en-US", "en")])
def test_a_code_of_another_standard_is_refused_and_the_right_one_is_named(code: str, right: str) -> None:
    said = message(changed(sources=[source(language=code)]))
    assert f"sources[0].language: '{code}' is not one of Bloomery's language codes" in said
    assert f"expected: {right}" in said


def test_every_place_of_a_code_is_checked() -> None:
    udhr = {"name": "u", "kind": "udhr", "languages": ["fr", "zh"]}
    tokens = {"name": "m", "kind": "megatron", "paths": ["x"], "language": "fra"}
    raw = changed(sources=[udhr, tokens], tokenizer__existing="a/b", corpus__mixture={"weights": {"pt-BR": 1.0}})
    said = message(raw)
    assert "sources[0].languages[1]: 'zh'" in said
    assert "sources[1].language: 'fra'" in said
    assert "corpus.mixture.weights.pt-BR: 'pt-BR'" in said


def test_a_weight_needs_a_source_of_its_language() -> None:
    raw = changed(sources=[source(language="fr")], corpus__mixture={"weights": {"fr": 1.0, "sw": 2.0, "yo": 0.0}})
    said = message(raw)
    assert "corpus.mixture.weights.sw: no source has the language 'sw'; expected: one of fr" in said
    assert "weights.yo" not in said
    assert "weights.fr" not in said


@pytest.mark.parametrize("keys", [{"language_field": "lang"}, {"language": "fr", "language_field": "lang"}, {}])
def test_weights_are_not_judged_if_only_the_data_state_languages(keys: dict[str, Any]) -> None:
    raw = changed(sources=[source(**keys)], corpus__mixture={"weights": {"sw": 1.0}})
    assert validate_config(raw).corpus.mixture.weights == {"sw": 1.0}


def test_a_language_without_a_profile_is_allowed() -> None:
    assert validate_config(changed(sources=[source(language="de")])).sources[0].language == "de"
