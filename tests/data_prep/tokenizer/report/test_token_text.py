"""Test the display of tokens as readable text."""

from __future__ import annotations

import pytest

from data_prep.tokenizer.report.token_text import token_html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (" the", "<i>␣</i>the"),
        ("\u200d\n", "<i>U+200D</i><i>U+000A</i>"),
        (" " * 40, "<i>␣ × 40</i>"),
        ("\u0301a", "◌\u0301a"),
        ("<&>", "&lt;&amp;&gt;"),
        ("\u202eab", "<i>U+202E</i>ab"),
        ("سلام", "سلام"),
    ],
)
def test_hidden_characters_of_a_token_become_visible(text, html):
    assert token_html({"text": text, "id": 1, "used": 0}) == f"<bdi class='token'>{html}</bdi>"


def test_a_part_of_a_character_is_shown_as_bytes():
    assert ">E0 A4</code>" in token_html({"text": None, "bytes": "E0 A4", "id": 1, "used": 0})
