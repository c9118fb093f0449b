"""The page's text: whole, alone, escaped, readable whatever a token holds."""

from __future__ import annotations

import re

import pytest

from data_prep.report.wording import count
from data_prep.tokenizer.report.dots import Axis
from data_prep.tokenizer.report.token_text import token_html

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def page(plant, make_shard, make_counts, report, tmp_path):
    counts = make_counts(
        make_shard("s/00000", {"en": [f"ab cd {HOSTILE}"], "<b>": ["ab"], "zhs": ["人人"], "ar": ["سلام"]})
    )
    settings = {"gate": {"max_tokens_per_word": 1.0}}
    found = report(plant(["ab", HOSTILE, "سلام"]), "--counts", counts, settings=settings)
    return (tmp_path / "out/tokenizer.html").read_text(), found


def test_it_stands_alone_and_escapes_tokens_and_codes(page):
    text, _ = page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "&lt;b&gt;" in text
    assert not re.search(r"<b> ?<code>|>\s*<b></b>", text)
    assert not re.search(r"(src|href)=[\"'](?!#)|url\(|@import|https?://", text)
    assert re.search(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[^']+'", text)
    assert "prefers-color-scheme: dark" in text


def test_it_says_the_verdict_first(page):
    text, found = page
    number = len(found["gate"]["failures"])
    assert {one["language"] for one in found["gate"]["failures"]} == {"en", "zhs"}
    assert f"failed its gate: {number} figures are beyond their limits" in text
    assert text.index("class='verdict failed'") < text.index('class="cards"')
    assert "English (en): tokens per word" in text


def test_every_language_has_its_figures(page):
    text, found = page
    for entry in found["languages"].values():
        assert f"<td class='n' data-value='{entry['tokens']}'>{count(entry['tokens'])}</td>" in text
    assert "1.00*" in text or "3.00*" in text, "characters, not words"


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
def test_a_token_can_be_read(text, html):
    assert token_html({"text": text, "id": 1, "used": 0}) == f"<bdi class='token'>{html}</bdi>"


def test_a_part_of_a_character_is_shown_as_bytes():
    assert ">E0 A4</code>" in token_html({"text": None, "bytes": "E0 A4", "id": 1, "used": 0})


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize("values", [[1.0], [0.02, 0.9], [1.2, 25.0], [0.3, 700.0], [3.0, 3.1], [0.0, 0.0]])
def test_an_axis_holds_every_value_and_has_round_ticks(values, logarithmic):
    axis = Axis.around(values, logarithmic)
    assert all(0 <= axis.place(value) <= 100 for value in values)
    ticks = axis.ticks()
    assert len(ticks) <= 7
    assert all(axis.low <= tick <= axis.high for tick in ticks)
