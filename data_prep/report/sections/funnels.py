"""Render funnels of input, removed and kept documents: for the whole corpus, each language, and each source."""

from __future__ import annotations

from html import escape
from typing import Any

from bloomery.base.units import format_bytes
from data_prep.report.charts import hanging, stacked
from data_prep.report.rules import FAMILIES, STAGES
from data_prep.report.wording import count, percent

MOST_SOURCES = 100
"""Greatest number of sources with a row of their own. The other, smaller sources share one row."""


def waterfall(totals: dict[str, Any]) -> str:
    """Return a waterfall chart from the input documents to the kept documents, with one bar per stage."""
    came, left = totals["documents_in"], totals["documents_in"]
    rows = [_step("input", hanging(0, ("came", "input", came), came), count(came), "")]
    for stage, (words, families) in STAGES.items():
        removed = totals["removed_by_stage"][stage]
        left -= removed
        bar = hanging(left, (families[0], words, removed), came)
        number = f"−{count(removed)}" if removed else "0"
        rows.append(_step(words, bar, number, percent(removed / came) if came else "–"))
    stayed = totals["documents_out"]
    share = percent(stayed / came) if came else "–"
    rows.append(_step("kept", hanging(0, ("kept", "kept", stayed), came), count(stayed), share))
    return f"<table class='bars waterfall'><tbody>{''.join(rows)}</tbody></table>"


def _step(words: str, bar: str, number: str, share: str) -> str:
    return (
        f"<tr><th scope='row'>{words}</th><td class='bar'>{bar}</td>"
        f"<td class='n'>{number}</td><td class='n'>{share}</td></tr>"
    )


def legend() -> str:
    """Return the legend of the colours of kept documents and of the families of rules."""
    items = [("kept", "kept"), *((name, words) for name, (words, _) in FAMILIES.items())]
    return "".join(f"<span><i style='background:var(--{name})'></i>{words}</span>" for name, words in items)


def languages(report: dict[str, Any]) -> str:
    """Return a table with one row per language, the largest language first."""
    entries = sorted(report["languages"].items(), key=lambda item: (-item[1]["bytes_in"], item[0]))
    rows = (
        _row(f"{escape(entry['name'])} <code>{escape(code)}</code>", entry, format_bytes(entry["bytes_out"]))
        for code, entry in entries
    )
    return _table("Language", "kept text", "".join(rows))


def sources(report: dict[str, Any]) -> str:
    """Return a table with one row per source, the largest source first. Sources beyond `MOST_SOURCES` share a row."""
    entries = sorted(report["sources"].items(), key=lambda item: (-item[1]["bytes_in"], item[0]))
    rows = [_row(escape(name), entry, count(entry["bad_rows"])) for name, entry in entries[:MOST_SOURCES]]
    small = [entry for _, entry in entries[MOST_SOURCES:]]
    if small:
        together = {key: sum(one[key] for one in small) for key in ("documents_in", "documents_out", "bad_rows")}
        rules = {rule for one in small for rule in one["removed"]}
        removed = {rule: sum(one["removed"].get(rule, 0) for one in small) for rule in rules}
        words = f"<i>{count(len(small))} smaller sources</i>"
        rows.append(_row(words, together | {"removed": removed}, count(together["bad_rows"])))
    return _table("Source", "bad rows", "".join(rows))


def _table(first: str, last: str, rows: str) -> str:
    return (
        f"<table class='bars'><thead><tr><th>{first}</th><th>documents</th><th class='n'>input</th>"
        f"<th class='n'>kept</th><th class='n'>{last}</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(title: str, entry: dict[str, Any], last: str) -> str:
    came, stayed = entry["documents_in"], entry["documents_out"]
    pieces: list[tuple[str, str, float]] = [("kept", "kept", stayed)]
    for name, (words, rules) in FAMILIES.items():
        pieces.append((name, words, sum(entry["removed"].get(rule, 0) for rule in rules)))
    return (
        f"<tr><th scope='row'>{title}</th><td class='bar'>{stacked(pieces)}</td><td class='n'>{count(came)}</td>"
        f"<td class='n'>{percent(stayed / came) if came else '–'}</td><td class='n'>{last}</td></tr>"
    )
