"""Test `read_mixture`, with which the tokenizer and the index read mixture.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from data_prep.formats.mixture import Mixture, read_mixture


def read(folder: Path, value: Any) -> Mixture:
    write_json(folder / "mixture.json", value)
    return read_mixture(folder / "mixture.json")


def test_a_mixture_needs_only_the_weights_of_languages(tmp_path: Path) -> None:
    found = read(tmp_path, {"languages": {"fr": {"weight": 0}, "en": {"weight": 1}}})
    assert found == Mixture(languages={"en": 1.0, "fr": 0.0}, sources={}, max_epochs=None)
    assert list(found.datasets) == ["en", "fr"]
    assert found.dataset("en", "web") == "en"


def test_a_language_mixed_by_source_has_one_dataset_per_source(tmp_path: Path) -> None:
    sources = {"web": {"weight": 0.1}, "books": {"weight": 0.3}}
    languages = {
        "en": {"weight": 0.4, "by_source": True, "sources": sources},
        "fr": {"weight": 0.6, "by_source": False, "sources": {"web": {"weight": 0.6}}},
    }
    found = read(tmp_path, {"languages": languages, "max_epochs": 4})
    assert found.datasets == {"en/books": 0.3, "en/web": 0.1, "fr": 0.6}
    assert (found.dataset("en", "web"), found.dataset("fr", "web")) == ("en/web", "fr")
    assert found.max_epochs == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "not a mixture"),
        ({"languages": {"en": 1}}, "not a mixture"),
        ({"languages": {"en": {"weight": -1}}}, "the weight of 'en' is -1.0"),
        ({"languages": {"en": {"weight": 1, "by_source": True}}}, "not a mixture"),
        ({"languages": {"en": {"weight": 1, "by_source": True, "sources": {"a": {"weight": -1}}}}}, "of 'en/a'"),
        ({"languages": {"en": {"weight": 1}}, "max_epochs": 0}, "max_epochs is 0.0"),
        ({"languages": {"en": {"weight": 1}}, "max_epochs": "x"}, "not a mixture"),
    ],
)
def test_an_invalid_mixture_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, value)
