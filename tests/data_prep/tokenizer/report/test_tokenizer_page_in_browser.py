"""Test the tokenizer page in a real browser: requests, width, places of marks, and sorting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from repository import SAMPLE

pytestmark = pytest.mark.slow

LANGUAGES = ("ar", "ur", "hi", "bn", "ta", "zhs", "en", "fr", "sw", "yo", "code")
HOSTILE = "<script>document.title='no'</script>"
LONG = "Donaudampfschifffahrtsgesellschaftskapitaensmuetze" * 2


@pytest.fixture
def page(plant: Any, make_shard: Any, make_counts: Any, report: Any, tmp_path: Path) -> Path:
    texts = {}
    for code in LANGUAGES:
        rows = [json.loads(line) for line in (SAMPLE / f"{code}.jsonl").read_text().splitlines()]
        texts[code] = [row["text"] for row in rows]
    counts = make_counts(make_shard("s/00000", texts))
    words = [" the", " und", "के", "سلام", "人", "https://www", HOSTILE, LONG]
    others = [
        f"other-{number}={plant(['the', ' de', ' ki'][:number], name=f'other-{number}')}" for number in range(1, 4)
    ]
    report(
        plant(words, extra=["zqj", "\u202e\u200d"], reserved=4), "--counts", counts,
        *(word for other in others for word in ("--reference", other)),
        settings={"gate": {"max_parity": 1.1, "max_over_monolingual": 0.1, "max_tokens_per_word": {"ta": 2}}},
    )  # fmt: skip
    return tmp_path / "out/tokenizer.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window_and_fetches_nothing(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.problems == []
    assert [url.split("/", 3)[0] for url in browser.requests] == ["file:"]
    assert browser.evaluate("document.title") == "Tokenizer report: tokens per language"
    wide = browser.evaluate("""
        [...document.querySelectorAll('main *')]
            .filter((one) => !one.closest('.scroll') && !one.closest('svg'))
            .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
            .filter(([, box]) => box.right > innerWidth + 0.5 || box.left < -0.5)
            .map(([start]) => start)
    """)
    assert wide == []
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Marks lie within the drawing of their row, with a tolerance of about their own size.
    outside = browser.evaluate("""
        [...document.querySelectorAll('.dots')].flatMap((row) => {
            const box = row.getBoundingClientRect();
            return [...row.querySelectorAll('.mark path')].map((mark) => mark.getBoundingClientRect())
                .filter((mark) => mark.left < box.left - 8 || mark.right > box.right + 8
                    || mark.top < box.top - 1 || mark.bottom > box.bottom + 1 || mark.width < 2);
        }).length
    """)
    assert outside == 0
    # The labels of an axis do not overlap.
    assert browser.evaluate("""
        [...document.querySelectorAll('.ticks')].every((ticks) => {
            const boxes = [...ticks.children].map((tick) => tick.getBoundingClientRect());
            return boxes.every((box, place) => place === 0 || boxes[place - 1].right <= box.left);
        })
    """)
    background, ink = browser.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    brightness = [sum(map(int, colour[4:-1].split(","))) for colour in (background, ink)]
    assert (brightness[0] < brightness[1]) == dark


def test_the_head_of_a_column_sorts_in_both_directions(browser: Browser, page: Path) -> None:
    browser.open(page)
    values = """
        [...document.querySelectorAll('table.figures tbody tr')].map((row) => Number(row.cells[2].dataset.value))
    """
    browser.evaluate("document.querySelector('table.figures thead th:nth-child(3) button').click()")
    falling = browser.evaluate(values)
    assert falling == sorted(falling, reverse=True)
    browser.evaluate("document.querySelector('table.figures thead th:nth-child(3) button').click()")
    assert browser.evaluate(values) == falling[::-1]
    assert browser.evaluate("document.querySelector('[aria-sort=ascending]').textContent") == "tokens"


def test_without_scripts_the_page_is_complete(browser: Browser, page: Path) -> None:
    browser.allow_scripts(False)
    try:
        browser.open(page)
        assert browser.problems == []
        assert browser.evaluate("document.querySelectorAll('table.figures tbody tr').length") == len(LANGUAGES)
        assert browser.evaluate("document.querySelectorAll('table.figures button').length") == 0
    finally:
        browser.allow_scripts(True)
