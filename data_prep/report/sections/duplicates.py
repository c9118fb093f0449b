"""Render the sizes of the clusters of duplicates, and the largest clusters with their kept documents."""

from __future__ import annotations

from html import escape
from typing import Any

from data_prep.report.charts import stacked
from data_prep.report.sections.rule_list import compared, likeness, quote
from data_prep.report.wording import count, documents


def duplicates(found: dict[str, Any]) -> str:
    """Return a bar per cluster size, followed by the largest clusters."""
    if not found["count"]:
        return "<p class='note'>No duplicates were found.</p>"
    most = max(row["removed"] for row in found["sizes"])
    rows = "".join(
        f"<tr><th scope='row'>{_span(row)}</th>"
        f"<td class='bar'>{stacked([('duplicates', 'removed', row['removed'])], whole=most)}</td>"
        f"<td class='n'>{count(row['clusters'])}</td><td class='n'>{count(row['removed'])}</td></tr>"
        for row in found["sizes"]
    )
    return (
        "<table class='bars'><thead><tr><th>Documents in a cluster</th><th>removed</th><th class='n'>clusters</th>"
        f"<th class='n'>removed</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<h3>Largest clusters</h3>{''.join(map(_cluster, found['largest']))}"
    )


def _span(row: dict[str, Any]) -> str:
    return f"{count(row['from'])}" if row["from"] == row["to"] else f"{count(row['from'])} to {count(row['to'])}"


def _cluster(cluster: dict[str, Any]) -> str:
    kept, removed = cluster["kept"], cluster["removed"]
    kinds = [(cluster["exact"], "exact"), (cluster["near"], "near")]
    words = ", ".join(f"{count(number)} {kind}" for number, kind in kinds if number)
    sources = ", ".join(f"{source} {count(number)}" for source, number in cluster["sources"].items())
    alike = "same text" if removed["kind"] == "exact" else likeness(removed["similarity"])
    facts = f"kept: {kept['id']} of {kept['source']} · removed: {removed['id']} of {removed['source']} ({alike})"
    texts = compared(removed, kept) if kept["excerpt"] else [quote(removed)]
    return (
        f"<details class='cluster'><summary><span class='title'><b>Cluster of {documents(cluster['size'])}</b> "
        f"<code>{escape(removed['language'])}</code></span><span class='count'>removed: {words}; sources: "
        f"{escape(sources)}</span></summary><ul class='examples'><li>{''.join(texts)}"
        f"<small>{escape(facts)}</small></li></ul></details>"
    )
