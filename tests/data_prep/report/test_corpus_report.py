"""The corpus report: numbers that add up, reasons with examples, no personal data, a page that stands alone."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bloomery.config.languages import language_profiles
from data_prep.report.corpus_page import render
from data_prep.report.examples import EXCERPT_CHARACTERS, PER_RULE, excerpt
from data_prep.report.rules import ALL_RULES, FAMILIES, STAGES, TITLES, stage_of
from data_prep.report.wording import count, language_attributes, number, percent

ROOT = Path(__file__).parents[3]
VOID = {"meta", "link", "br", "input"}


@pytest.fixture(scope="module")
def report(sample_run: Any) -> tuple[dict[str, Any], str]:
    found: tuple[dict[str, Any], str] = sample_run.report()
    return found


def test_the_funnel_adds_up_for_all_languages_and_sources(report: tuple[dict[str, Any], str]) -> None:
    data = report[0]
    for funnel in (data["totals"], *data["languages"].values(), *data["sources"].values()):
        assert funnel["documents_in"] == funnel["documents_out"] + sum(funnel["removed"].values())
        assert funnel["removed"].keys() == funnel["removed_bytes"].keys()
        assert sum(funnel["removed_by_stage"].values()) == sum(funnel["removed"].values())
    for key in ("documents_in", "bytes_in", "documents_out", "bytes_out"):
        for groups in (data["languages"], data["sources"]):
            assert sum(entry[key] for entry in groups.values()) == data["totals"][key]
    assert data["totals"]["redactions"].keys() == {"email", "ip"}
    assert data["duplicates"]["exact"] == data["rules"]["exact_duplicate"]["documents"]
    assert data["mixture"]["languages"].keys() == {c for c, e in data["languages"].items() if e["documents_out"]}


def test_each_rule_shows_examples_that_it_removed(report: tuple[dict[str, Any], str], sample_run: Any) -> None:
    rules = {row["id"]: row["rule"] for row in sample_run.rows("verdicts")}
    for name, rule in report[0]["rules"].items():
        assert len(rule["examples"]) == min(PER_RULE, rule["documents"])
        assert len({example["id"] for example in rule["examples"]}) == len(rule["examples"])
        for example in rule["examples"]:
            assert 0 < len(example["excerpt"]) <= EXCERPT_CHARACTERS
            assert rules[example["id"]] == ("" if name.endswith("_duplicate") else name)


def test_examples_say_why(report: tuple[dict[str, Any], str]) -> None:
    rules = report[0]["rules"]
    for name, rule in rules.items():
        for example in rule["examples"]:
            if name.startswith("min_"):
                assert example["value"] < example["limit"]
            elif name.startswith("max_"):
                assert example["value"] > example["limit"]
    for example in rules["near_duplicate"]["examples"]:
        assert example["similarity"] >= 0.7
        assert example["duplicate_of"] != example["id"]
        assert example["duplicate_of_excerpt"]


def test_a_wrong_label_is_shown_with_the_detected_language(corpus_run: Any, tmp_path: Path) -> None:
    texts = [json.loads(line)["text"] for line in (ROOT / "config/sample/es.jsonl").read_text().splitlines()[:4]]
    labels = ["es", "es", "eu", "hi"]
    rows = [json.dumps({"text": text, "language": code}) for text, code in zip(texts, labels, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    source = {"name": "a", "kind": "jsonl", "paths": [str(tmp_path / "a.jsonl")], "language_field": "language"}
    run = corpus_run([source], judge={"preset": "none"})
    run.all()
    data, page = run.report()
    examples = data["rules"]["wrong_language"]["examples"]
    assert [(one["language"], one["detected"]) for one in examples] == [("eu", "es"), ("hi", "es")]
    assert "labelled hi, detected es" in page


def test_examples_are_of_several_languages(report: tuple[dict[str, Any], str]) -> None:
    for rule in report[0]["rules"].values():
        if len({code for code, entry in report[0]["languages"].items() if entry["documents_in"]}) > PER_RULE:
            assert len({example["language"] for example in rule["examples"]}) > 1 or rule["documents"] <= PER_RULE


def test_what_the_limits_remove_now_is_what_the_judge_counted(
    report: tuple[dict[str, Any], str], sample_run: Any
) -> None:
    data = report[0]
    failing = Counter(rule for row in sample_run.rows("verdicts") for rule in row["rules"])
    for rule, entry in data["what_if"].items():
        now = sum(one["removed_now"] for one in entry["languages"].values())
        assert now == failing[rule]
        for code, one in entry["languages"].items():
            assert one["documents"] == data["languages"][code]["documents_in"]
            assert one["removed"] == sorted(one["removed"], reverse=rule.startswith("max_"))
            assert len(one["removed"]) == len(entry["at"])


def test_no_personal_data_gets_into_the_report(report: tuple[dict[str, Any], str]) -> None:
    for text in (json.dumps(report[0], ensure_ascii=False), report[1]):
        assert not re.search(r"\w@\w+\.\w", text)
    assert excerpt("mail  me:\n someone@example.org, " + "x" * 100).startswith("mail me: <EMAIL>, xxx")
    assert "@" not in excerpt("y" * (EXCERPT_CHARACTERS - 10) + " someone@example.org")


def test_every_rule_has_a_family_a_title_and_a_stage(report: tuple[dict[str, Any], str]) -> None:
    assert sorted(rule for _, rules in FAMILIES.values() for rule in rules) == sorted(ALL_RULES)
    assert sorted(TITLES) == sorted(ALL_RULES)
    assert {stage_of(rule) for rule in ALL_RULES} == set(STAGES)
    for family in FAMILIES:
        assert report[1].count(f"--{family}: #") == 2, "a colour for light and one for dark"


class Checker(HTMLParser):
    """Every tag is closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "onclick", "onload", "action"} & {name for name, _ in attrs}
        assert all(value.startswith("#") for name, value in attrs if name == "href" and value), "links stay in the page"
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
    assert report[1].count("<script") == 2, "the data and what draws it"
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


def test_links_within_the_page_lead_somewhere(report: tuple[dict[str, Any], str]) -> None:
    targets = set(re.findall(r"href=['\"]#([^'\"]+)", report[1]))
    assert targets <= set(re.findall(r"id=['\"]([^'\"]+)", report[1]))


def test_the_page_stays_small(report: tuple[dict[str, Any], str]) -> None:
    """All languages and rules, and 500 M documents: what grows with the corpus is the digits of its counts."""
    data = json.loads(json.dumps(report[0]))
    entry = data["languages"]["en"] | {"redactions": data["totals"]["redactions"]}
    data["languages"] = dict.fromkeys(language_profiles(), entry)
    for rule in data["what_if"].values():
        curve = next(iter(rule["languages"].values()))
        curve |= {name: curve[name] * 1_000_003 for name in ("documents", "removed_now")}
        curve["removed"] = [number * 1_000_003 for number in curve["removed"]]
        rule["languages"] = dict.fromkeys(language_profiles(), curve)
    assert len(render(data).encode()) < 2_000_000


def test_numbers_in_words() -> None:
    assert count(1234567) == "1\u202f234\u202f567"
    assert [percent(share) for share in (0, 0.0001, 0.034, 0.5, 0.9999, 1)] == [
        *("0\u202f%", "<\u202f0.1\u202f%", "3.4\u202f%", "50\u202f%", "99.9\u202f%", "100\u202f%"),
    ]
    assert [number(value) for value in (0.25, 12, 100000.0, 0.123456789)] == ["0.25", "12", "100\u202f000", "0.123457"]


def test_languages_are_tagged_for_browsers() -> None:
    assert language_attributes("ur") == " lang='ur' dir='rtl'"
    assert language_attributes("zht") == " lang='zh-Hant' dir='auto'"
    assert language_attributes("code") == " lang='' dir='ltr'"
