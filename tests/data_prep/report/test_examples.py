"""Test the examples of removed documents."""

from typing import Any

from data_prep.report.examples import EXCERPT_CHARACTERS, PER_RULE


def test_each_rule_shows_examples_that_it_removed(report: tuple[dict[str, Any], str], sample_run: Any) -> None:
    rules = {row["id"]: row["rule"] for row in sample_run.rows("verdicts")}
    for name, rule in report[0]["rules"].items():
        assert len(rule["examples"]) == min(PER_RULE, rule["documents"])
        assert len({example["id"] for example in rule["examples"]}) == len(rule["examples"])
        for example in rule["examples"]:
            assert 0 < len(example["excerpt"]) <= EXCERPT_CHARACTERS
            assert rules[example["id"]] == ("" if name.endswith("_duplicate") else name)


def test_examples_show_the_value_that_broke_the_rule(report: tuple[dict[str, Any], str]) -> None:
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


def test_the_examples_of_a_rule_have_several_languages(report: tuple[dict[str, Any], str]) -> None:
    for rule in report[0]["rules"].values():
        if len({code for code, entry in report[0]["languages"].items() if entry["documents_in"]}) > PER_RULE:
            assert len({example["language"] for example in rule["examples"]}) > 1 or rule["documents"] <= PER_RULE
