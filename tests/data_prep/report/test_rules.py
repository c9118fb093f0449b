"""Test the tables of rules that remove documents."""

from typing import Any

from data_prep.report.rules import ALL_RULES, FAMILIES, STAGES, TITLES, stage_of


def test_every_rule_has_a_family_a_title_and_a_stage(report: tuple[dict[str, Any], str]) -> None:
    assert sorted(rule for _, rules in FAMILIES.values() for rule in rules) == sorted(ALL_RULES)
    assert sorted(TITLES) == sorted(ALL_RULES)
    assert {stage_of(rule) for rule in ALL_RULES} == set(STAGES)
    for family in FAMILIES:
        assert report[1].count(f"--{family}: #") == 2, "one colour for light pages and one for dark pages"
