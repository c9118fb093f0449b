"""Test the text of the page: it needs no other file, is complete, and escapes every token."""

from __future__ import annotations

import re

import pytest

from data_prep.report.wording import count

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def page(plant, make_shard, make_counts, report, tmp_path):
    counts = make_counts(
        make_shard("s/00000", {"en": [f"ab cd {HOSTILE}"], "<b>": ["ab"], "zhs": ["人人"], "ar": ["سلام"]})
    )
    settings = {"gate": {"max_tokens_per_word": 1.0}}
    found = report(plant(["ab", HOSTILE, "سلام"]), "--counts", counts, settings=settings)
    return (tmp_path / "out/tokenizer.html").read_text(), found


def test_the_page_fetches_nothing_and_escapes_tokens_and_codes(page):
    text, _ = page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "&lt;b&gt;" in text
    assert not re.search(r"<b> ?<code>|>\s*<b></b>", text)
    assert not re.search(r"(src|href)=[\"'](?!#)|url\(|@import|https?://", text)
    assert re.search(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[^']+'", text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_shows_the_verdict_first(page):
    text, found = page
    number = len(found["gate"]["failures"])
    assert {one["language"] for one in found["gate"]["failures"]} == {"en", "zhs"}
    assert f"does not meet its limits: {number} figures are beyond their limits" in text
    assert text.index("class='verdict failed'") < text.index('class="cards"')
    assert "English (en): tokens per word" in text


def test_every_language_has_its_figures(page):
    text, found = page
    for entry in found["languages"].values():
        assert f"<td class='n' data-value='{entry['tokens']}'>{count(entry['tokens'])}</td>" in text
    assert "1.00*" in text or "3.00*" in text, "an asterisk marks tokens per character instead of per word"
