"""Test that the page of the corpus report is well formed, small, and complete in one file."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bloomery.config.languages import language_profiles
from data_prep.report.corpus_page import render

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "br", "input"}


class Checker(HTMLParser):
    """Check that every tag is closed and that the page fetches nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "onclick", "onload", "action"} & {name for name, _ in attrs}
        assert all(value.startswith("#") for name, value in attrs if name == "href" and value), (
            "links must stay within the page"
        )
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(report: tuple[dict[str, Any], str]) -> None:
    checker = Checker()
    checker.feed(report[1])
    assert checker.open == []
    assert not checker.tags & {"link", "img", "iframe", "form"}
    assert report[1].count("<script") == 2, "one script holds the data and one draws it"
    assert "url(" not in report[1]
    assert "prefers-color-scheme: dark" in report[1]
    for entry in report[0]["languages"].values():
        assert entry["name"] in report[1]


def test_text_of_documents_cannot_break_out_of_the_page(corpus_run: Any, tmp_path: Path) -> None:
    rows = [{"text": "<script>alert('x')</script> " * 30, "language": "en"}, {"text": "short </q>", "language": "en"}]
    good = {"text": "The baker on our street begins work at three in the morning, long before the first bus rolls "
            "down the hill, and he mixes flour, water and salt while the city sleeps.", "language": "en"}  # fmt: skip
    lines = [*map(json.dumps, [*rows, good]), '{"<b>bad', ""]
    (tmp_path / "a&b.jsonl").write_text("\n".join(lines))
    source = {
        "name": "s", "kind": "jsonl", "paths": [f"{tmp_path}/*.jsonl"], "language_field": "language",
        "max_bad_share": 0.5,
    }  # fmt: skip
    run = corpus_run([source])
    run.all()
    data, page = run.report()
    assert data["bad_rows"]["reasons"] == {"invalid JSON": 1}
    assert data["bad_rows"]["examples"][0]["line"] == 4
    checker = Checker()
    checker.feed(page)
    assert page.count("<script") == 2
    assert "&lt;script&gt;alert(" in page
    assert "a&amp;b.jsonl" in page


def test_links_within_the_page_have_targets(report: tuple[dict[str, Any], str]) -> None:
    targets = set(re.findall(r"href=['\"]#([^'\"]+)", report[1]))
    assert targets <= set(re.findall(r"id=['\"]([^'\"]+)", report[1]))


def test_the_page_stays_small(report: tuple[dict[str, Any], str]) -> None:
    """The page has all languages and rules, and 500 M documents.

    For a larger corpus, only the counts on the page have more digits.
    """
    data = json.loads(json.dumps(report[0]))
    entry = data["languages"]["en"] | {"redactions": data["totals"]["redactions"]}
    data["languages"] = dict.fromkeys(language_profiles(), entry)
    for rule in data["what_if"].values():
        curve = next(iter(rule["languages"].values()))
        curve |= {name: curve[name] * 1_000_003 for name in ("documents", "removed_now")}
        curve["removed"] = [number * 1_000_003 for number in curve["removed"]]
        rule["languages"] = dict.fromkeys(language_profiles(), curve)
    assert len(render(data).encode()) < 2_000_000
