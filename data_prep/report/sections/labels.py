"""Render, per language, how many documents have a language label that differs from the detected language."""

from __future__ import annotations

from html import escape
from typing import Any

from data_prep.report.charts import stacked
from data_prep.report.wording import count, percent


def labels(report: dict[str, Any]) -> str:
    """Return a table with the number of documents per language that were removed because their label differs from the
    detected language, and of those that were kept because their source is trusted."""
    rows = []
    for code, entry in report["languages"].items():
        removed, stayed = entry["removed"].get("wrong_language", 0), entry["trusted_disagreements"]
        if removed or stayed:
            rows.append((removed + stayed, code, entry, removed, stayed))
    if not rows:
        return "<p class='note'>All labels agree with the detected language, where a language was detected.</p>"
    rows.sort(key=lambda row: (-row[0], row[1]))
    most = rows[0][0]
    body = "".join(
        f"<tr><th scope='row'>{escape(entry['name'])} <code>{escape(code)}</code></th><td class='bar'>"
        f"{stacked([('language', 'removed', removed), ('text', 'kept (trusted source)', stayed)], whole=most)}</td>"
        f"<td class='n'>{count(removed)}</td><td class='n'>{count(stayed)}</td>"
        f"<td class='n'>{percent(total / entry['documents_in'])}</td></tr>"
        for total, code, entry, removed, stayed in rows
    )
    return (
        "<div class='legend'><span><i style='background:var(--language)'></i>removed</span>"
        "<span><i style='background:var(--text)'></i>kept (trusted source)</span></div>"
        "<table class='bars'><thead><tr><th>Label</th><th></th><th class='n'>removed</th><th class='n'>kept</th>"
        f"<th class='n'>share of all</th></tr></thead><tbody>{body}</tbody></table>"
    )
