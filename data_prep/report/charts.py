"""Draw charts as inline SVG. Each function takes numbers and returns a string. Colours are CSS variables of the page.

The page stretches each chart to the available width, so charts contain no text. An `aria-label` describes the content.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from data_prep.report.wording import count, percent

BarPart = tuple[str, str, float]
"""Colour (name of a CSS variable), label and number of a part of a bar."""

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
    """Return one bar of coloured parts. The width of a part is its share of `whole`, which defaults to the sum."""
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
    """Return one bar of a waterfall chart, which begins at `start` on a scale from 0 to `whole`."""
    colour, words, number = piece
    title = f"{words}: {count(int(number))}"
    # A minimum width makes even a very small number visible.
    width = max(100 * number / whole, 0.4) if number and whole else 0.0
    left = min(100 * start / whole, 100 - width) if whole else 0.0
    return _svg(100, 10, title, _bar(left, width, 0, 10, colour, title))


def pair(upper: BarPart, lower: BarPart, whole: float) -> str:
    """Return two thin bars, one above the other, to compare two shares."""
    bars = "".join(
        _bar(0, 100 * number / whole, y, 4.4, colour, f"{words}: {percent(number)}")
        for y, (colour, words, number) in ((0, upper), (5.2, lower))
    )
    return _svg(100, 10, ", ".join(f"{words} {percent(number)}" for _, words, number in (upper, lower)), bars)


def outline(numbers: Sequence[int], peak: int) -> str:
    """Return the SVG path of a histogram with bars of width 1 and logarithmic height. `page.js` does the same."""
    scale = PLOT_HEIGHT / math.log1p(peak) if peak else 0.0
    steps = (f"V{PLOT_HEIGHT - math.log1p(number) * scale:.1f}H{step + 1}" for step, number in enumerate(numbers))
    return f"M0 {PLOT_HEIGHT}{''.join(steps)}V{PLOT_HEIGHT}Z"


def histogram(
    numbers: Sequence[int], beyond: Sequence[int], limits: Sequence[tuple[float, float]], colour: str, label: str
) -> str:
    """Return a histogram of all documents, with the documents beyond a limit in front, and with the limits as bands.

    Args:
        numbers: number of documents per bar.
        beyond: number of documents beyond a limit per bar.
        limits: position of the smallest and the greatest limit of each rule. They differ if languages have different
            limits.
        colour: name of the CSS variable for the documents beyond a limit.
        label: description for screen readers.
    """
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
