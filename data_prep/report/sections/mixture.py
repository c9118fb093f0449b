"""Render the share of the text and the weight in the mixture, per language."""

from __future__ import annotations

from html import escape
from typing import Any

from data_prep.report.charts import pair
from data_prep.report.wording import percent


def mixture(found: dict[str, Any] | None, names: dict[str, Any]) -> str:
    """Return a table with a pair of bars per language, by descending weight, and with the epochs if they are known."""
    if not found or not found["languages"]:
        return "<p class='note'>There is no mixture yet.</p>"
    entries = sorted(found["languages"].items(), key=lambda item: (-item[1]["weight"], item[0]))
    largest = max(max(entry["share"], entry["weight"]) for _, entry in entries)
    told = any(entry.get("epochs") is not None for _, entry in entries)
    rows = "".join(
        f"<tr><th scope='row'>{escape(names.get(code, {}).get('name', code))} <code>{escape(code)}</code></th>"
        f"<td class='bar'>"
        f"{pair(('text', 'text', entry['share']), ('kept', 'mixture', entry['weight']), largest)}</td>"
        f"<td class='n'>{percent(entry['share'])}</td><td class='n'>{percent(entry['weight'])}</td>"
        + (f"<td class='n'>{_epochs(entry.get('epochs'))}</td>" if told else "")
        + "</tr>"
        for code, entry in entries
    )
    epochs = "<th class='n'>epochs</th>" if told else ""
    return (
        "<div class='legend'><span><i style='background:var(--text)'></i>share of the text</span>"
        "<span><i style='background:var(--kept)'></i>weight in the mixture</span></div>"
        "<table class='bars'><thead><tr><th>Language</th><th></th><th class='n'>text</th>"
        f"<th class='n'>mixture</th>{epochs}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _epochs(number: float | None) -> str:
    return "–" if number is None else f"{number:.2g}" if number < 10 else f"{number:.0f}"
