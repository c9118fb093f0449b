"""Sections of the page about the vocabulary."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from bloomery.base.units import format_count
from data_prep.report.charts import PLOT_HEIGHT, outline, stacked
from data_prep.report.wording import count, percent
from data_prep.tokenizer.report.findings import FAMILY, LONG, RARE
from data_prep.tokenizer.report.token_text import token_html, token_list

_LONGEST = 40
_NEVER = {
    "inside": ("only inside longer tokens", "Learnt on the way to a longer token, which always takes its place."),
    "absent": ("absent from the text", "Not even a longer token that is used has it inside."),
    "byte": ("bytes", "Thirteen bytes never stand in UTF-8; others belong to scripts that the text lacks."),
}
_GLITCHES = {
    "unreachable": ("cannot be reached", "Its own text is encoded as something else."),
    "url": ("addresses", "Parts of addresses of web pages: often repeated lines that deduplication left."),
    "run": ("runs", "One character over and over, white space aside."),
    "long": ("very long", f"{LONG} characters or more."),
    "rare": ("hardly used", f"Used fewer than {RARE} times: a model hardly learns these."),
}


def scripts(facts: dict[str, Any]) -> str:
    """The vocabulary by script, used and never used."""
    entries: dict[str, dict[str, int]] = facts["scripts"]
    most = max((one["tokens"] for one in entries.values()), default=1)
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td class='bar'>"
        + stacked([("kept", "used", one["used"]), ("came", "never used", one["tokens"] - one["used"])], most)
        + f"</td><td class='n'>{count(one['tokens'])}</td>"
        + f"<td class='n'>{percent(one['tokens'] / facts['tokens'])}</td></tr>"
        for name, one in sorted(entries.items(), key=lambda item: (-item[1]["tokens"], item[0]))
    )
    return f"<table class='bars'><tbody>{rows}</tbody></table>"


def lengths(facts: dict[str, Any]) -> str:
    """How many tokens have how many characters."""
    numbers = facts["lengths"]
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if len(numbers) / step <= 10)
    # The middle of a step of width 1.
    ticks = [(number, 100 * (number + 0.5) / len(numbers)) for number in range(0, len(numbers), step)]
    label = ", ".join(f"{number}: {count(many)}" for number, many in enumerate(numbers) if many)
    return _plot(
        f"<path class='all' d='{outline(numbers, max(numbers))}'/>",
        len(numbers),
        "tokens by characters: " + label,
        ticks,
    )


def ranks(facts: dict[str, Any]) -> str:
    """Uses over rank, both logarithmic: a straight line is Zipf's law, a drop at the end hardly used tokens."""
    points: list[list[int]] = facts["ranks"]
    if len(points) < 2:
        return "<p class='note'>Nothing is used.</p>"
    wide, high = math.log10(points[-1][0]) or 1.0, math.log10(points[0][1]) or 1.0
    path = "L".join(
        f"{100 * math.log10(rank) / wide:.2f} {PLOT_HEIGHT * (1 - math.log10(uses) / high):.2f}"
        for rank, uses in points
    )
    area = f"<path class='all' d='M0 {PLOT_HEIGHT}L{path}L100 {PLOT_HEIGHT}Z'/>"
    ticks = [(10**power, 100 * power / wide) for power in range(int(wide) + 1)]
    words = f"uses by rank: {count(points[0][1])} of the first, {count(points[-1][1])} of rank {count(points[-1][0])}"
    marks = "".join(
        f"<span style='bottom:{100 * power / high:.2f}%'>{format_count(10**power)}</span>"
        for power in range(0, int(high) + 1, max(1, math.ceil(high / 5)))
    )
    return f"<div class='framed'><div class='heights'>{marks}</div>{_plot(area, 100, words, ticks)}</div>"


def _plot(inside: str, width: float, label: str, ticks: list[tuple[int, float]]) -> str:
    shown = "".join(f"<span style='left:{place:.2f}%'>{format_count(number)}</span>" for number, place in ticks)
    return (
        f"<div class='plot tall'><svg viewBox='0 0 {width:g} {PLOT_HEIGHT}' preserveAspectRatio='none' role='img' "
        f"aria-label='{escape(label)}'>{inside}</svg><div class='ticks'>{shown}</div></div>"
    )


def never_used(facts: dict[str, Any]) -> str:
    """Tokens that no text uses, by the reason why."""
    never = facts["never_used"]
    return "".join(
        _details(words, why, never["kinds"][kind], token_list(never["listed"][kind], never["kinds"][kind]))
        for kind, (words, why) in _NEVER.items()
    )


def glitches(facts: dict[str, Any]) -> str:
    """Tokens that look like mistakes, by what shows it."""
    found = "".join(
        _details(words, why, one["tokens"], token_list(one["listed"], one["tokens"]))
        for kind, (words, why) in _GLITCHES.items()
        if (one := facts["glitches"].get(kind)) is not None
    )
    families = facts["families"]
    rows = "".join(
        f"<li><b>{count(family['tokens'])}</b> {' '.join(map(token_html, family['listed']))}</li>"
        for family in families
    )
    why = f"{FAMILY} or more long tokens that begin alike, digits aside: templates and forms, but also rich inflection."
    number = sum(one["tokens"] for one in families)
    return found + _details("families", why, number, f"<ul class='families'>{rows}</ul>")


def _details(words: str, why: str, number: int, inside: str) -> str:
    return (
        f"<details class='kind'><summary><b>{words}</b><span class='count'>{count(number)}</span></summary>"
        f"<p>{why}</p>{inside if number else ''}</details>"
    )


def longest(facts: dict[str, Any]) -> str:
    """The longest tokens."""
    return token_list(facts["longest"][:_LONGEST], _LONGEST)
