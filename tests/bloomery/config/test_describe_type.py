"""Test the sentences that describe which values a key accepts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bloomery.config.describe_type import PATTERNS, described, fields_at, types_at
from bloomery.config.key_reference import json_schema
from bloomery.config.run import RunConfig
from bloomery.config.site import Site


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (("model", "layers"), "a whole number above 0 and at most 10000"),
        (("model", "feed_forward_size"), "a whole number above 0, or null"),
        (("seed",), "a whole number of at least 0 and below 2^63"),
        (("publish", "hub"), "true or false"),
        (("export", "dtype"), "one of 'bfloat16', 'float16', 'float32', or null"),
        (("training", "zero_stage"), "one of 0, 1, 2, 3"),
        (("plan", "disk"), "a size such as 1048576, '64MiB' or '2GB', or null"),
        (("sources", 0, "paths"), "a list with at least 1 entry, where each entry is text"),
        (("sources", 0), "a mapping with keys such as name, licence, weight, language"),
        (
            ("corpus", "mixture", "weights"),
            "a mapping from names to values, where each value is a number of at least 0",
        ),
        (("training", "energy", "country"), "a country code of three capital letters (ISO 3166-1 alpha-3)"),
        (("tokenizer", "existing"), "text that is not empty, or null"),
    ],
)
def test_a_key_is_described_by_its_type_and_limits(location: tuple[str | int, ...], words: str) -> None:
    found = list(dict.fromkeys(described(kind) for kind in types_at(RunConfig, location)))
    assert found == [words]


def test_a_path_that_does_not_exist_has_neither_types_nor_fields() -> None:
    assert types_at(RunConfig, ("model", "depth")) == []
    assert fields_at(RunConfig, ("model", 0)) == []
    assert fields_at(RunConfig, ()) == []


def patterns(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {found for item in schema for found in patterns(item)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if schema.get("type") == "string" and "pattern" in schema else set()
    return own | {found for item in schema.values() for found in patterns(item)}


def test_every_pattern_of_a_key_is_said_in_words() -> None:
    used = patterns(json_schema()) | patterns(Site.model_json_schema())
    assert used == set(PATTERNS)
    for pattern, words in PATTERNS.items():
        assert not re.fullmatch(pattern, words)
