"""Render each measure with its limits: a histogram, and sliders that show how many documents other limits would remove.

The histograms are complete without the page's script, which is only needed to choose a language and to move limits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from data_prep.report.charts import histogram
from data_prep.report.rules import TITLES, family_of, measure_of
from data_prep.report.sections.rule_list import limits_in_words
from data_prep.report.wording import count, documents, percent

_TICKS = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)


def limits(report: dict[str, Any]) -> str:
    """Return the cards of all measures. Measures with a limit come first."""
    measures: dict[str, list[str]] = {}
    for rule in report["what_if"]:
        measures.setdefault(str(measure_of(rule)), []).append(rule)
    used = [measure for measure, rules in measures.items() if any(_limits(report, rule) for rule in rules)]
    unused = [measure for measure in measures if measure not in used]
    cards = "".join(_card(report, measure, measures[measure]) for measure in used)
    html = f"<div class='limits'>{cards}</div>"
    if unused:
        cards = "".join(_card(report, measure, measures[measure]) for measure in unused)
        html += (
            f"<details class='unused'><summary><b>{len(unused)} measures without a limit</b></summary>"
            f"<div class='limits'>{cards}</div></details>"
        )
    return html


def page_data(report: dict[str, Any]) -> str:
    """Return the data of the page's script, as JSON that is safe inside a script element.

    Each rule has `edges`, which are the limits to try. Each of its languages has:

    - `steps`: numbers of documents below the first edge, between the edges, and above the last edge. The number of
      documents that an edge would remove as a limit is the sum of the steps on one side of the edge.
    - `limits`: configured limits.
    - `now`: number of documents that the configured limits remove.

    The size of the data is proportional to rules x languages.
    """
    rules = {
        rule: {
            "edges": entry["at"],
            "languages": {
                code: {
                    "steps": steps(rule, one["removed"], one["documents"]),
                    "limits": one["limits"],
                    "now": one["removed_now"],
                }
                for code, one in entry["languages"].items()
            },
        }
        for rule, entry in report["what_if"].items()
    }
    return json.dumps(rules, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")


def steps(rule: str, removed: Sequence[int], total: int) -> list[int]:
    """Return the numbers of documents below the first edge, between the edges, and above the last edge of a rule.

    The edges are the limits to try. They are not the configured limits.

    Args:
        rule: name of the rule.
        removed: number of documents that the rule would remove with each edge as its limit.
        total: number of all documents.
    """
    below = removed if rule.startswith("min_") else [total - number for number in removed]
    return [after - before for before, after in pairwise([0, *below, total])]


def beyond(rule: str, found: Sequence[int], removed: int) -> list[int]:
    """Return how many of the `found` documents of each step a rule removes if it removes `removed` documents in total.

    `page.js` does the same. A minimum removes the lowest values, and a maximum removes the highest values. If sources
    use recipes with different limits, only the total number is exact, not the distribution over the steps.
    """
    result, rest = [0] * len(found), removed
    for place in range(len(found)) if rule.startswith("min_") else reversed(range(len(found))):
        result[place] = min(rest, found[place])
        rest -= result[place]
    return result


def _limits(report: dict[str, Any], rule: str) -> list[float]:
    """Return the configured limits of all languages."""
    return [limit for one in report["what_if"][rule]["languages"].values() for limit in one["limits"]]


def _place(value: float, edges: Sequence[float]) -> float:
    """Return the horizontal position of a value in the histogram, whose steps have width 1."""
    return float(np.interp(value, edges, np.arange(1, len(edges) + 1)))


def _card(report: dict[str, Any], measure: str, rules: list[str]) -> str:
    edges = report["what_if"][rules[0]]["at"]
    found = _sums(report, rules[0])
    gone = [0] * len(found)
    for rule in rules:
        for one in report["what_if"][rule]["languages"].values():
            own = steps(rule, one["removed"], one["documents"])
            part = beyond(rule, own, one["removed_now"])
            gone = [before + more for before, more in zip(gone, part, strict=True)]
    values = [_limits(report, rule) for rule in rules]
    bands = [(_place(min(one), edges), _place(max(one), edges)) for one in values if one]
    name = measure.replace("_", " ")
    label = f"{name}: {documents(sum(found))}, {count(sum(gone))} beyond a limit"
    return (
        f"<article class='limit' id='measure-{measure}'><h3>{name}</h3>"
        f"<div class='plot'>{histogram(found, gone, bands, family_of(rules[0]), label)}"
        f"<div class='ticks'>{_ticks(edges)}</div></div>"
        f"{''.join(_control(report, rule) for rule in rules)}</article>"
    )


def _sums(report: dict[str, Any], rule: str) -> list[int]:
    """Return the number of documents per step, summed over all languages."""
    own = [steps(rule, one["removed"], one["documents"]) for one in report["what_if"][rule]["languages"].values()]
    return [sum(column) for column in zip(*own, strict=True)]


def _ticks(edges: Sequence[float]) -> str:
    """Return the labels below the histogram, at least one eighth of its width apart."""
    width = len(edges) + 1
    shown, last = [], -width / 8
    for value in _TICKS:
        place = _place(value, edges)
        if edges[0] <= value <= edges[-1] and place - last >= width / 8:
            shown.append(f"<span style='left:{100 * place / width:.2f}%'>{_short(value)}</span>")
            last = place
    return "".join(shown)


def _short(value: float) -> str:
    """Format a number with a short unit: `100000` -> `100k`."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _control(report: dict[str, Any], rule: str) -> str:
    entry = report["what_if"][rule]
    held = _limits(report, rule)
    total = sum(one["documents"] for one in entry["languages"].values())
    now = sum(one["removed_now"] for one in entry["languages"].values())
    words = "no limit"
    if held:
        words = f"limit {limits_in_words(held)} removes {documents(now)} ({percent(now / total) if total else '–'})"
    return (
        f"<div class='control' data-rule='{rule}'><label><b>{escape(TITLES.get(rule, rule))}</b> "
        f"<input type='range' min='0' max='{len(entry['at']) - 1}' step='1' hidden></label>"
        f"<output>{words}</output></div>"
    )
