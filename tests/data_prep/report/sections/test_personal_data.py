"""Test that the report contains no personal data."""

import json
import re
from typing import Any

from data_prep.report.examples import EXCERPT_CHARACTERS, excerpt


def test_no_personal_data_gets_into_the_report(report: tuple[dict[str, Any], str]) -> None:
    for text in (json.dumps(report[0], ensure_ascii=False), report[1]):
        assert not re.search(r"\w@\w+\.\w", text)
    assert excerpt("mail  me:\n someone@example.org, " + "x" * 100).startswith("mail me: <EMAIL>, xxx")
    assert "@" not in excerpt("y" * (EXCERPT_CHARACTERS - 10) + " someone@example.org")
