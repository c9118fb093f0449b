"""Render the numbers of removed repeated lines, which many documents of a source have in common."""

from __future__ import annotations

from html import escape
from typing import Any

from bloomery.base.units import format_bytes
from data_prep.report.charts import stacked
from data_prep.report.wording import count, percent


def repeated_lines(report: dict[str, Any]) -> str:
    """Return the section with a row for each language that has removed lines, by descending number of removed bytes.

    Return an empty string if the run does not remove repeated lines.
    """
    found = report["repeated_lines"]
    if found is None:
        return ""
    rows = sorted(
        ((code, one) for code, one in found.items() if one["lines_removed"]),
        key=lambda item: (-item[1]["line_bytes_removed"], item[0]),
    )
    most = rows[0][1]["line_bytes_removed"] if rows else 1
    body = "".join(
        f"<tr><th scope='row'>{escape(report['languages'].get(code, {}).get('name', code))} <code>{escape(code)}</code>"
        f"</th><td class='bar'>{stacked([('layout', 'bytes', one['line_bytes_removed'])], whole=most)}</td>"
        f"<td class='n'>{count(one['lines_removed'])}</td><td class='n'>{format_bytes(one['line_bytes_removed'])}</td>"
        f"<td class='n'>{percent(one['documents_changed'] / one['documents'])}</td></tr>"
        for code, one in rows
    )
    table = (
        "<table class='bars'><thead><tr><th>Language</th><th></th><th class='n'>lines</th><th class='n'>text</th>"
        f"<th class='n'>documents</th></tr></thead><tbody>{body}</tbody></table>"
    )
    return (
        "<section id='repeated-lines'><h2>Repeated lines</h2><p class='note'>Menus, notices and templates that many "
        "documents of a source have in common were removed before the documents were measured. The last column is the "
        "share of documents that were changed.</p>"
        f"{table if rows else '<p class=note>No repeated lines were found.</p>'}</section>"
    )
