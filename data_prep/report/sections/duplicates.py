"""Clusters of duplicates: how large they are, and the largest with the document that stayed."""

from __future__ import annotations

from html import escape
from typing import Any

from data_prep.report.charts import stacked
from data_prep.report.sections.rule_list import compared, likeness, quote
from data_prep.report.wording import count, documents


def duplicates(found: dict[str, Any]) -> str:
    """The sizes as bars, then the largest clusters."""
    if not found["count"]:
        return "<p class='note'>No document is like another.</p>"
    most = max(row["removed"] for row in found["sizes"])
    rows = "".join(
        f"<tr><th scope='row'>{_span(row)}</th>"
        f"<td class='bar'>{stacked([('duplicates', 'removed', row['removed'])], whole=most)}</td>"
        f"<td class='n'>{count(row['clusters'])}</td><td class='n'>{count(row['removed'])}</td></tr>"
        for row in found["sizes"]
    )
    return (
        "<table class='bars'><thead><tr><th>Alike</th><th>removed</th><th class='n'>clusters</th>"
        f"<th class='n'>removed</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<h3>The largest</h3>{''.join(map(_cluster, found['largest']))}"
    )


def _span(row: dict[str, Any]) -> str:
    return f"{count(row['from'])}" if row["from"] == row["to"] else f"{count(row['from'])} to {count(row['to'])}"


def _cluster(cluster: dict[str, Any]) -> str:
    kept, removed = cluster["kept"], cluster["removed"]
    kinds = [(cluster["exact"], "the same"), (cluster["near"], "nearly the same")]
    words = ", ".join(f"{count(number)} {kind}" for number, kind in kinds if number)
    sources = ", ".join(f"{source} {count(number)}" for source, number in cluster["sources"].items())
    alike = "the same text" if removed["kind"] == "exact" else likeness(removed["similarity"])
    facts = f"stayed: {kept['id']} of {kept['source']} · went: {removed['id']} of {removed['source']} ({alike})"
    texts = compared(removed, kept) if kept["excerpt"] else [quote(removed)]
    return (
        f"<details class='cluster'><summary><span class='title'><b>{documents(cluster['size'])} alike</b> "
        f"<code>{escape(removed['language'])}</code></span><span class='count'>{words}; removed from "
        f"{escape(sources)}</span></summary><ul class='examples'><li>{''.join(texts)}"
        f"<small>{escape(facts)}</small></li></ul></details>"
    )
