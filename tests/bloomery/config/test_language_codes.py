"""Test the translation of language codes of other standards into codes of this project."""

from __future__ import annotations

import pytest

from bloomery.config.language_codes import meant_codes
from bloomery.config.languages import language_profiles


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("zh", ("zhs", "zht")),
        ("zho", ("zhs", "zht")),
        ("zh-TW", ("zht",)),
        ("zh_Hans", ("zhs",)),
        ("cmn_Hant", ("zht",)),
        ("en-US", ("en",)),
        ("EN", ("en",)),
        ("pt_BR", ("pt",)),
        ("swh_Latn", ("sw",)),
        ("fra", ("fr",)),
        ("Hindi", ("hi",)),
    ],
)
def test_a_code_of_another_standard_names_what_is_meant(code: str, meant: tuple[str, ...]) -> None:
    assert meant_codes(code) == meant


def test_every_code_of_a_profile_is_accepted() -> None:
    assert not [code for code in language_profiles() if meant_codes(code)]


@pytest.mark.parametrize("code", ["de", "de-AT", "deu", "x-private"])
def test_a_language_without_a_profile_is_allowed(code: str) -> None:
    assert meant_codes(code) == ()
