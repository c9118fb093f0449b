"""Make the sections of the HTML page that concern the vocabulary."""

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
    "inside": (
        "only inside longer tokens",
        "Training created each of these tokens as a part of a longer token, which is always used instead.",
    ),
    "absent": ("absent from the text", "These tokens are not even part of a longer token that is used."),
    "byte": (
        "single bytes",
        "Thirteen bytes never occur in UTF-8. The other bytes belong to scripts that the text does not contain.",
    ),
}
_GLITCHES = {
    "unreachable": ("unreachable", "If the text of one of these tokens is encoded, the result is other tokens."),
    "url": (
        "web addresses",
        "These tokens are parts of web addresses. Many come from repeated lines that deduplication did not remove.",
    ),
    "run": ("repeated characters", "These tokens repeat one character (other than white space) many times."),
    "long": ("very long", f"These tokens have {LONG} or more characters."),
    "rare": ("rarely used", f"These tokens are used fewer than {RARE} times, so a model hardly learns them."),
}


def scripts(facts: dict[str, Any]) -> str:
    """Return the HTML of one bar per script, which shows the script's used tokens and its never used tokens."""
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
    """Return a histogram of the tokens by their number of characters."""
    numbers = facts["lengths"]
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if len(numbers) / step <= 10)
    # A tick is at the middle of its bar, which has width 1.
    ticks = [(number, 100 * (number + 0.5) / len(numbers)) for number in range(0, len(numbers), step)]
    label = ", ".join(f"{number}: {count(many)}" for number, many in enumerate(numbers) if many)
    return _plot(
        f"<path class='all' d='{outline(numbers, max(numbers))}'/>",
        len(numbers),
        "number of tokens by length in characters: " + label,
        ticks,
    )


def ranks(facts: dict[str, Any]) -> str:
    """Return a plot of the number of uses over the rank of a token, with two logarithmic scales.

    A straight line means that the uses follow Zipf's law. A drop at the end shows tokens that are hardly used.
    """
    points: list[list[int]] = facts["ranks"]
    if len(points) < 2:
        return "<p class='note'>Fewer than two tokens are used.</p>"
    wide, high = math.log10(points[-1][0]) or 1.0, math.log10(points[0][1]) or 1.0
    path = "L".join(
        f"{100 * math.log10(rank) / wide:.2f} {PLOT_HEIGHT * (1 - math.log10(uses) / high):.2f}"
        for rank, uses in points
    )
    area = f"<path class='all' d='M0 {PLOT_HEIGHT}L{path}L100 {PLOT_HEIGHT}Z'/>"
    ticks = [(10**power, 100 * power / wide) for power in range(int(wide) + 1)]
    words = f"uses by rank: {count(points[0][1])} at rank 1, {count(points[-1][1])} at rank {count(points[-1][0])}"
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
    """Return the tokens that no text uses, grouped by the reason."""
    never = facts["never_used"]
    return "".join(
        _details(words, why, never["kinds"][kind], token_list(never["listed"][kind], never["kinds"][kind]))
        for kind, (words, why) in _NEVER.items()
    )


def glitches(facts: dict[str, Any]) -> str:
    """Return the tokens that look like mistakes, grouped by the sign of the mistake."""
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
    why = (
        f"Each family has {FAMILY} or more long tokens with the same beginning (digits count as equal). "
        "Families come from repeated templates, and from languages with many inflected forms."
    )
    number = sum(one["tokens"] for one in families)
    return found + _details("families", why, number, f"<ul class='families'>{rows}</ul>")


def _details(words: str, why: str, number: int, inside: str) -> str:
    return (
        f"<details class='kind'><summary><b>{words}</b><span class='count'>{count(number)}</span></summary>"
        f"<p>{why}</p>{inside if number else ''}</details>"
    )


def longest(facts: dict[str, Any]) -> str:
    """Return the list of the longest tokens."""
    return token_list(facts["longest"][:_LONGEST], _LONGEST)
