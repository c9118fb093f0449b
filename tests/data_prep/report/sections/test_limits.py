"""Test the section about limits."""

from collections import Counter
from typing import Any


def test_the_limits_remove_as_many_documents_as_judge_counted(
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
