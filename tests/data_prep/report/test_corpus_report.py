"""The corpus report: numbers that add up, reasons with examples, no personal data, a page that stands alone."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from data_prep.report.examples import excerpt
from data_prep.report.gather import ALL_RULES
from data_prep.report.page import FAMILIES, TITLES

VOID = {"meta", "link", "br", "rect"}


@pytest.fixture(scope="module")
def report(sample_run: Any) -> tuple[dict[str, Any], str]:
    found: tuple[dict[str, Any], str] = sample_run.report()
    return found


def test_the_funnel_adds_up_for_all_languages_and_sources(report: tuple[dict[str, Any], str]) -> None:
    data = report[0]
    for funnel in (data["totals"], *data["languages"].values(), *data["sources"].values()):
        assert funnel["documents_in"] == funnel["documents_out"] + sum(funnel["removed"].values())
        assert funnel["removed"].keys() == funnel["removed_bytes"].keys()
    for key in ("documents_in", "bytes_in", "documents_out", "bytes_out"):
        for groups in (data["languages"], data["sources"]):
            assert sum(entry[key] for entry in groups.values()) == data["totals"][key]
    assert data["totals"]["redactions"].keys() == {"email", "ip"}
    assert data["duplicates"]["exact"] == data["rules"]["exact_duplicate"]["documents"]
    assert data["mixture"]["languages"].keys() == {c for c, e in data["languages"].items() if e["documents_out"]}


def test_each_rule_shows_examples_that_it_removed(report: tuple[dict[str, Any], str], sample_run: Any) -> None:
    rules = {row["id"]: row["rule"] for row in sample_run.rows("verdicts")}
    for name, rule in report[0]["rules"].items():
        assert len(rule["examples"]) == min(3, rule["documents"])
        for example in rule["examples"]:
            assert len(example["excerpt"]) <= 80
            assert rules[example["id"]] == ("" if name.endswith("_duplicate") else name)


def test_no_personal_data_gets_into_the_report(report: tuple[dict[str, Any], str]) -> None:
    for text in (json.dumps(report[0], ensure_ascii=False), report[1]):
        assert not re.search(r"\w@\w+\.\w", text)
    assert excerpt("mail  me:\n someone@example.org, " + "x" * 100).startswith("mail me: <EMAIL>, xxx")
    assert "@" not in excerpt("y" * 70 + " someone@example.org")


def test_every_rule_has_a_family_and_a_title() -> None:
    assert sorted(rule for _, rules in FAMILIES.values() for rule in rules) == sorted(ALL_RULES)
    assert sorted(TITLES) == sorted(ALL_RULES)


class Checker(HTMLParser):
    """Every tag is closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(report: tuple[dict[str, Any], str]) -> None:
    checker = Checker()
    checker.feed(report[1])
    assert checker.open == []
    assert not checker.tags & {"script", "link", "img", "iframe"}
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
    assert "script" not in checker.tags
    assert "a&amp;b.jsonl" in page
