"""Test the corpus page in a real browser: its width, its scripts and text directions, and its sliders."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from repository import SAMPLE

from data_prep.report.wording import count

pytestmark = pytest.mark.slow

RIGHT_TO_LEFT = ("ar", "ur")
INDIC = ("hi", "bn", "ta", "te")
LANGUAGES = (*RIGHT_TO_LEFT, *INDIC, "zhs", "en", "sw", "code")
WIDTHS = [1280, 390]


@pytest.fixture(scope="module")
def page(corpus_run: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Make a report whose largest clusters of duplicates show text of many scripts."""
    folder = tmp_path_factory.mktemp("texts")
    for code in LANGUAGES:
        rows = [json.loads(line) for line in (SAMPLE / f"{code}.jsonl").read_text().splitlines()]
        rows += [rows[0] | {"id": f"{code}{end}", "text": rows[0]["text"] + f"\n{end}"} for end in "!?"]
        (folder / f"{code}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    shutil.copy(SAMPLE / "defects.jsonl", folder)
    source = {
        "name": "sample", "kind": "jsonl", "paths": [f"{folder}/*.jsonl"], "language_field": "language",
        "max_bad_share": 0.05,
    }  # fmt: skip
    run = corpus_run([source])
    run.all()
    data, _ = run.report()
    return run.folder / "report/corpus.html", data


@pytest.fixture(params=[(width, dark) for width in WIDTHS for dark in (False, True)], ids=str)
def opened(request: Any, browser: Browser, page: Any) -> Browser:
    """Open the page with all details expanded, in a wide and a narrow window, light and dark."""
    width, dark = request.param
    browser.open(page[0], width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return browser


def needs_font(*languages: str) -> None:
    for code in languages:
        found = subprocess.run(["fc-list", f":lang={code}"], capture_output=True, text=True, check=True).stdout
        if not found:
            pytest.skip(f"no font for {code} on this machine (apt-get install fonts-noto-core fonts-wqy-microhei)")


def test_the_page_fetches_nothing_and_logs_no_problem(opened: Browser) -> None:
    assert opened.problems == []
    assert [url.split("/", 3)[0] for url in opened.requests] == ["file:"]


def test_the_page_is_not_wider_than_its_window(opened: Browser) -> None:
    wide = opened.evaluate("""
        [...document.querySelectorAll('main *')]
            .filter((one) => !one.closest('.scroll') && !one.closest('svg') && !one.closest('.treemap'))
            .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
            .filter(([, box]) => box.right > innerWidth + 0.5 || box.left < -0.5)
            .map(([start]) => start)
    """)
    assert wide == []
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


TILES = """
    (() => {
        const box = (one) => { const r = one.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
        const shown = (one) => getComputedStyle(one).display !== 'none';
        return {
            map: box(document.querySelector('.treemap')),
            tiles: [...document.querySelectorAll('.treemap li')].map((tile) => ({
                name: tile.title, box: box(tile),
                labels: [...tile.children].filter(shown).map((one) => [one.localName, ...box(one)]),
            })),
        };
    })()
"""


def test_tiles_fill_the_treemap_and_labels_fit_into_their_tiles(opened: Browser, page: Any) -> None:
    found = opened.evaluate(TILES)
    left, top, right, bottom = found["map"]
    area = (right - left) * (bottom - top)
    sizes = {entry["name"]: entry["bytes_out"] for entry in page[1]["languages"].values() if entry["bytes_out"]}
    assert len(found["tiles"]) == len(sizes)
    for tile in found["tiles"]:
        x, y, x2, y2 = tile["box"]
        assert (x2 - x) * (y2 - y) == pytest.approx(
            sizes[tile["name"].rpartition(":")[0]] / sum(sizes.values()) * area, rel=0.02
        )
        for name, *label in tile["labels"]:
            assert label[0] >= x - 0.5, (name, tile)
            assert label[1] >= y - 0.5, (name, tile)
            assert label[2] <= x2 + 0.5, (name, tile)
            assert label[3] <= y2 + 0.5, (name, tile)
        for (_, *one), (_, *other) in combinations(tile["labels"], 2):
            assert overlap(one, other) == 0, tile
    assert sum(overlap(one["box"], other["box"]) for one, other in combinations(found["tiles"], 2)) < 0.001 * area
    assert sum(bool(tile["labels"]) for tile in found["tiles"]) >= len(sizes) / 2


def overlap(one: list[float], other: list[float]) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0) * max(down, 0)


QUOTES = """
    [...document.querySelectorAll('.examples q')].filter((one) => one.textContent.length > 20).map((one) => {
        const node = [...one.childNodes].map((child) => child.firstChild ?? child)
            .reduce((longest, child) => (child.length > longest.length ? child : longest));
        const place = (from) => {
            const range = document.createRange();
            range.setStart(node, from);
            range.setEnd(node, from + 1);
            return range.getBoundingClientRect();
        };
        const style = getComputedStyle(one);
        const [first, later] = [place(0), place(4)];
        return {
            language: one.lang, text: one.textContent, direction: style.direction, transform: style.transform,
            first: first.left, later: later.left, sameLine: first.top === later.top,
        };
    })
"""


def test_excerpts_run_in_the_direction_of_their_script(opened: Browser) -> None:
    quotes = opened.evaluate(QUOTES)
    assert {"ar", "ur", "hi", "bn", "ta", "zh-Hans", "en"} <= {quote["language"] for quote in quotes}
    for quote in quotes:
        leftwards = quote["language"] in RIGHT_TO_LEFT
        assert quote["direction"] == ("rtl" if leftwards else "ltr"), quote
        assert quote["transform"] == "none"
        if quote["language"] in (*RIGHT_TO_LEFT, "hi", "en") and quote["sameLine"]:
            assert (quote["later"] < quote["first"]) == leftwards, quote


# Each letter of the text is compared with the glyph that is drawn for a letter that no font has.
GLYPHS = """
    (() => {
        const canvas = document.createElement('canvas');
        canvas.width = canvas.height = 64;
        const brush = canvas.getContext('2d', { willReadFrequently: true });
        const picture = (letter, font) => {
            brush.clearRect(0, 0, 64, 64);
            brush.font = font;
            brush.fillText(letter, 16, 44);
            return brush.getImageData(0, 0, 64, 64).data.join();
        };
        return [...document.querySelectorAll('.examples q')].filter((one) => one.lang).map((one) => {
            const font = `32px ${getComputedStyle(one).fontFamily}`;
            const missing = ['\\u0378', '\\u{10FFFE}'].map((letter) => picture(letter, font));
            const letters = [...new Set(one.textContent)].filter((letter) => /\\p{L}/u.test(letter));
            const empty = picture(' ', font);
            const bad = letters.filter((letter) => [...missing, empty].includes(picture(letter, font)));
            return { language: one.lang, letters: letters.length, bad: bad.join('') };
        });
    })()
"""


def test_every_letter_has_a_glyph(browser: Browser, page: Any) -> None:
    needs_font("ar", "ur", *INDIC, "zh-cn", "yo")
    browser.open(page[0])
    found = browser.evaluate(GLYPHS)
    assert {"ar", "ur", *INDIC, "zh-Hans"} <= {quote["language"] for quote in found if quote["letters"] > 10}
    # The planted defects include broken encodings, but only in Latin letters, which are not checked.
    for quote in found:
        if quote["language"] in (*RIGHT_TO_LEFT, *INDIC, "zh-Hans"):
            assert quote["bad"] == "", quote


WIDTH_OF = """
    ((language, text) => {
        const one = document.createElement('q');
        one.lang = language;
        one.style = 'position: absolute; white-space: pre; font-size: 40px';
        one.textContent = text;
        document.querySelector('.examples').append(one);
        const width = one.getBoundingClientRect().width;
        one.remove();
        return width;
    })
"""


@pytest.mark.parametrize(
    ("language", "joined", "apart"),
    [
        ("ar", "سسس", ["س", "س", "س"]),
        ("ur", "ننن", ["ن", "ن", "ن"]),
        ("hi", "क्ष", ["क", "ष"]),
        ("bn", "ক্ষ", ["ক", "ষ"]),
    ],
)
def test_letters_join_as_their_script_requires(
    browser: Browser, page: Any, language: str, joined: str, apart: list[str]
) -> None:
    needs_font(language)
    browser.open(page[0])
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    def width(text: str) -> float:
        return float(browser.evaluate(f"{WIDTH_OF}({json.dumps(language)}, {json.dumps(text)})"))

    assert width(joined) < 0.95 * sum(map(width, apart))


CONTRASTS = """
    (() => {
        const canvas = document.createElement('canvas');
        const brush = canvas.getContext('2d', { willReadFrequently: true });
        const parse = (colour) => {
            brush.clearRect(0, 0, 1, 1);
            brush.fillStyle = colour;
            brush.fillRect(0, 0, 1, 1);
            return [...brush.getImageData(0, 0, 1, 1).data];
        };
        const luminance = ([r, g, b]) => {
            const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
        };
        const behind = (one) => {
            const layers = [];
            for (let place = one; place; place = place.parentElement) {
                const colour = parse(getComputedStyle(place).backgroundColor);
                layers.push(colour);
                if (colour[3] === 255) break;
            }
            const over = (below, layer) => below.map((c, i) => c + (layer[i] - c) * layer[3] / 255);
            return layers.reverse().reduce(over, [0, 0, 0]);
        };
        const seen = new Map();
        const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            const one = node.parentElement;
            if (!node.data.trim() || !one.getClientRects().length || one.closest('svg')) continue;
            const both = [parse(getComputedStyle(one).color), behind(one)].map(luminance);
            const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
            const name = [one, one.parentElement].map((it) => `${it.localName}.${it.className}`).join(' in ');
            seen.set(name, Math.min(ratio, seen.get(name) ?? 99));
        }
        return Object.fromEntries(seen);
    })()
"""


def test_text_has_enough_contrast_with_its_background(opened: Browser) -> None:
    ratios = opened.evaluate(CONTRASTS)
    assert len(ratios) > 20
    # WCAG 2.2, 1.4.3 (AA) requires a ratio of 4.5.
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


SLIDE = """
    ((rule, place, language) => {
        const chooser = document.getElementById('language');
        if (chooser.value !== language) {
            chooser.value = language;
            chooser.dispatchEvent(new Event('change'));
        }
        const control = document.querySelector(`[data-rule=${rule}]`);
        if (place !== null) {
            control.querySelector('input').value = place;
            control.querySelector('input').dispatchEvent(new Event('input'));
        }
        return control.querySelector('output').textContent;
    })
"""


def test_a_slider_shows_the_counts_of_the_data(browser: Browser, page: Any) -> None:
    browser.open(page[0])
    told = set()
    for language in ("", "ar", "en"):
        browser.evaluate("document.getElementById('reset').click()")
        for rule, entry in page[1]["what_if"].items():
            chosen = [one for code, one in entry["languages"].items() if language in ("", code)]
            now = sum(one["removed_now"] for one in chosen)
            held = any(one["limits"] for one in chosen)
            before = browser.evaluate(f"{SLIDE}({json.dumps(rule)}, null, {json.dumps(language)})")
            assert documents_in(before) == (now if held else None), (rule, before)
            for place in {0, len(entry["at"]) // 2, len(entry["at"]) - 1}:
                after = browser.evaluate(f"{SLIDE}({json.dumps(rule)}, {place}, {json.dumps(language)})")
                number = sum(one["removed"][place] for one in chosen)
                assert documents_in(after) == number, (rule, place, after)
                assert after.endswith(f"; the configured limits remove {count(now)}")
                told.add(number)
    assert len(told) > 10, "the sliders change the counts"


def documents_in(words: str) -> int | None:
    found = re.search(r" removes ([\d\u202f]+) documents? ", words)
    return int(found[1].replace("\u202f", "")) if found else None


def test_the_script_draws_the_same_curves_and_texts_as_the_page(browser: Browser, page: Any) -> None:
    written = page[0].read_text()
    browser.open(page[0])
    for kind in ("all", "beyond"):
        static = [unescape(match) for match in re.findall(rf"<path class='{kind}'[^>]* d='([^']+)'", written)]
        drawn = browser.evaluate(f"[...document.querySelectorAll('path.{kind}')].map((one) => one.getAttribute('d'))")
        assert drawn == static
        assert len(static) > 10
    said = re.findall(r"<output>([^<]+)</output>", written)
    assert browser.evaluate("[...document.querySelectorAll('output')].map((one) => one.textContent)") == [
        unescape(words) for words in said
    ]


@pytest.fixture
def without_scripts(browser: Browser) -> Iterator[Browser]:
    browser.allow_scripts(False)
    yield browser
    browser.allow_scripts(True)


def test_without_scripts_everything_except_the_sliders_is_shown(without_scripts: Browser, page: Any) -> None:
    without_scripts.open(page[0])
    assert without_scripts.evaluate("""
        [...document.querySelectorAll('.chooser, input')].every((one) => getComputedStyle(one).display === 'none')
    """)
    assert without_scripts.evaluate("""
        [...document.querySelectorAll('.limit')].every((one) => one.querySelector('path.all').getBBox().height > 30)
    """)
