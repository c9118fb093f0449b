"""Test the texts that explain a wrong value and show a right one. Every example in them must be valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from bloomery.config.explain_value import example_of, shown, wrong_values
from bloomery.config.key_reference import sections
from bloomery.config.keys import models_in
from bloomery.config.run import RunConfig
from bloomery.config.site import Site


def all_sections(annotation: Any) -> Iterator[type[BaseModel]]:
    for section in models_in(annotation):
        yield section
        for field in section.model_fields.values():
            yield from all_sections(field.annotation)


EVERY = list(dict.fromkeys([*all_sections(RunConfig), *all_sections(Site)]))


def test_every_example_is_valid() -> None:
    count = 0
    for section in EVERY:
        for name, field in section.model_fields.items():
            kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            for example in field.examples or []:
                TypeAdapter(kind).validate_python(example)
                assert example not in ([], {}), (section, name)
                count += 1
    assert count > 60


def test_every_list_map_and_optional_section_of_the_reference_has_an_example() -> None:
    keys = [key for _, _, found in sections() for key in found]
    complex_keys = [key for key in keys if any(word in key.kind for word in ("list", "map", "section"))]
    assert len(complex_keys) > 25
    assert [key.path for key in complex_keys if key.example is None] == []


def test_an_example_is_the_keys_own_or_its_default_or_part_of_its_parents() -> None:
    assert example_of(RunConfig, ("model", "layers")) == "24"
    assert example_of(RunConfig, ("training", "optimizer", "beta2")) == "0.95"
    assert example_of(RunConfig, ("corpus", "mixture", "weights", "xx")) == "0.6"
    assert example_of(RunConfig, ("sources", 0, "paths", 3)) == '"data/**/*.jsonl.zst"'
    assert example_of(RunConfig, ("model", "feed_forward_size")) is None


def test_a_value_is_shown_on_one_short_line_with_the_words_of_yaml() -> None:
    assert (shown(None), shown(True), shown("a\nb")) == ("null", "true", r"'a\nb'")
    assert len(shown("x" * 500)) == 60


class _Inner(BaseModel):
    count: int
    flag: bool


class _File(BaseModel, extra="forbid"):
    parts: list[_Inner]
    name: str


def test_a_damaged_file_of_a_stage_is_explained_without_the_librarys_words() -> None:
    with pytest.raises(ValidationError) as caught:
        _File.model_validate({"parts": [{"count": "x", "flag": True}], "more": 1})
    text = wrong_values(caught.value, _File)
    assert text == "parts[0].count: 'x' is not valid; expected: a whole number; name: missing; more: unknown key"
    with pytest.raises(ValidationError) as caught:
        _File.model_validate({"parts": [{}, {}, {}], "name": 1})
    assert wrong_values(caught.value, _File).endswith("; and 4 more problems")
    with pytest.raises(ValidationError) as caught:
        _File.model_validate([1])
    assert wrong_values(caught.value, _File) == (
        "the file: [1] is not valid; expected: a mapping with keys such as parts, name"
    )
