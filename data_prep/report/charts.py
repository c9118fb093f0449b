"""Charts as inline SVG: small functions from numbers to a string. Colours are the page's variables.

Each is drawn in a box of its own units that the page stretches, so none holds text; a label says the same in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from data_prep.report.wording import count, percent

BarPart = tuple[str, str, float]
"""Colour (the name of a variable), words, number."""

PLOT_HEIGHT = 40


def _svg(width: float, height: float, label: str, inside: str) -> str:
    return (
        f"<svg viewBox='0 0 {width:g} {height:g}' preserveAspectRatio='none' role='img' "
        f"aria-label='{escape(label)}'>{inside}</svg>"
    )


def _bar(x: float, width: float, y: float, height: float, colour: str, title: str) -> str:
    return (
        f"<rect x='{x:.3f}' y='{y:g}' width='{width:.3f}' height='{height:g}' style='fill:var(--{colour})'>"
        f"<title>{escape(title)}</title></rect>"
    )


def stacked(pieces: Sequence[BarPart], whole: float | None = None) -> str:
    """One bar of coloured pieces, as wide as their share of `whole` (of all of them)."""
    total = sum(number for _, _, number in pieces)
    scale = whole or total or 1
    drawn, left = [], 0.0
    for colour, words, number in pieces:
        if number:
            width = 100 * number / scale
            share = f"{words}: {count(int(number))} ({percent(number / total)})"
            drawn.append(_bar(left, width, 0, 10, colour, share))
            left += width
    label = ", ".join(f"{words} {count(int(number))}" for _, words, number in pieces if number)
    return _svg(100, 10, label, "".join(drawn))


def hanging(start: float, piece: BarPart, whole: float) -> str:
    """One piece of a waterfall: it begins at `start` of `whole`."""
    colour, words, number = piece
    title = f"{words}: {count(int(number))}"
    # What is there is seen, however small its share.
    width = max(100 * number / whole, 0.4) if number and whole else 0.0
    left = min(100 * start / whole, 100 - width) if whole else 0.0
    return _svg(100, 10, title, _bar(left, width, 0, 10, colour, title))


def pair(upper: BarPart, lower: BarPart, whole: float) -> str:
    """Two thin bars over each other, to compare two shares."""
    bars = "".join(
        _bar(0, 100 * number / whole, y, 4.4, colour, f"{words}: {percent(number)}")
        for y, (colour, words, number) in ((0, upper), (5.2, lower))
    )
    return _svg(100, 10, ", ".join(f"{words} {percent(number)}" for _, words, number in (upper, lower)), bars)


def outline(numbers: Sequence[int], peak: int) -> str:
    """SVG path of a histogram: steps of width 1, as high as the logarithm of their number; `page.js` does the same."""
    scale = PLOT_HEIGHT / math.log1p(peak) if peak else 0.0
    steps = (f"V{PLOT_HEIGHT - math.log1p(number) * scale:.1f}H{step + 1}" for step, number in enumerate(numbers))
    return f"M0 {PLOT_HEIGHT}{''.join(steps)}V{PLOT_HEIGHT}Z"


def histogram(
    numbers: Sequence[int], beyond: Sequence[int], limits: Sequence[tuple[float, float]], colour: str, label: str
) -> str:
    """All documents, in front of them those beyond a limit, and the limits: from and to, where languages differ."""
    peak = max(numbers, default=0)
    bands = "".join(
        f"<rect class='band' x='{low:.2f}' y='0' width='{high - low:.2f}' height='{PLOT_HEIGHT}'/>"
        f"<path class='line' d='M{low:.2f} 0V{PLOT_HEIGHT}M{high:.2f} 0V{PLOT_HEIGHT}'/>"
        for low, high in limits
    )
    inside = (
        f"<path class='all' d='{outline(numbers, peak)}'/>"
        f"<path class='beyond' style='fill:var(--{colour})' d='{outline(beyond, peak)}'/>{bands}"
    )
    return _svg(len(numbers), PLOT_HEIGHT, label, inside)
