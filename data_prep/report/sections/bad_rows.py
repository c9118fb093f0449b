"""Render the rows of the sources that could not be read as documents."""

from __future__ import annotations

from html import escape
from typing import Any

from data_prep.report.wording import count


def bad_rows(bad: dict[str, Any]) -> str:
    """Return the section with the number of bad rows by reason and the first bad rows, or "" without bad rows."""
    if not bad["count"]:
        return ""
    reasons = ", ".join(f"{escape(reason)} {count(number)}" for reason, number in bad["reasons"].items())
    rows = "".join(
        f"<tr><td>{escape(row['file'])}</td><td class='n'>{row['line'] if row['line'] is not None else '–'}</td>"
        f"<td>{escape(row['reason'])}</td><td dir='auto'>{escape(row['detail'] or row['excerpt'])}</td></tr>"
        for row in bad["examples"]
    )
    return (
        "<section id='bad-rows'><h2>Rows that could not be read</h2>"
        f"<p class='note'>Rows by reason ({count(bad['count'])} in total): {reasons}. These are the first ones:</p>"
        "<div class='scroll' tabindex='0'><table><thead><tr>"
        "<th>File</th><th class='n'>line</th><th>Reason</th><th>Detail or excerpt</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )
