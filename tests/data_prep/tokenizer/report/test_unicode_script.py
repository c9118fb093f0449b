"""Test the script of a token."""

from __future__ import annotations

import pytest

from data_prep.tokenizer.report.unicode_script import script_of


@pytest.mark.parametrize(
    ("text", "script"),
    [
        (" the", "Latin"), ("के", "Devanagari"), ("人a人", "Han"), ("123", "digits"), ("   ", "white space"),
        ("2e", "Latin"), ("...", "punctuation and signs"), (" , ", "punctuation and signs"),
        ("\u200d", "punctuation and signs"),
    ],
)  # fmt: skip
def test_the_script_of_a_token_is_that_of_most_of_its_letters(text, script):
    assert script_of(text) == script
