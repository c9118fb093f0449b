"""Draw dot plots as HTML and SVG: one row per language, one mark per tokenizer, and one common axis.

Positions are percentages of the width, so marks keep their shape in a window of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLOURS = ("encoding", "words", "symbols", "length", "layout", "repetition", "language", "came")
_FORMS = ("M-5 0L0-5L5 0L0 5Z", "M-4-4H4V4H-4Z", "M-5 4L0-5L5 4Z", "M-5-4L0 5L5-4Z")
OWN = "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0Z"
MONOLINGUAL = "M-1.4-7.5H1.4V7.5H-1.4Z"
_ROUND = (1.0, 2.0, 5.0, 3.0, 1.5, 7.0, 1.2, 4.0, 2.5, 1.1, 1.3, 1.4, 1.7)
"""Leading digits of ticks on a logarithmic axis, in order of preference."""
_MOST_TICKS, _TICK_DISTANCE = 7, 9.0
"""Greatest number of ticks, and smallest distance between two ticks in percent of the width."""
_LIMIT_SAMPLE = (
    "<span><svg class='key' viewBox='-8 -8 16 16' aria-hidden='true'>"
    "<line class='limit' x1='0' x2='0' y1='-8' y2='8'/></svg>"
)
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """A tokenizer in a dot plot: its name, the look of its marks, and its figures."""

    name: str
    colour: str
    form: str
    value: Callable[[Entry, str], float | None]
    """Function of a language's report entry and the name of a figure. It returns the figure of the series' tokenizer,
    or None if the entry does not have the figure."""

    @property
    def sample(self) -> str:
        """HTML of the tokenizer's entry in a legend."""
        mark = f"<svg class='key' viewBox='-8 -8 16 16' aria-hidden='true'>{self.path}</svg>"
        return f"<span>{mark}{escape(self.name)}</span>"

    @property
    def path(self) -> str:
        """SVG path of the mark, centred at (0, 0)."""
        return f"<path d='{self.form}' style='fill:var(--{self.colour})'/>"


def all_series(references: Sequence[str], monolingual: bool) -> list[Series]:
    """Return the series of all tokenizers in drawing order.

    The references come first, then each language's own tokenizer, and the reported tokenizer last.
    """

    def of_reference(name: str) -> Callable[[Entry, str], float | None]:
        return lambda entry, figure: _number(entry["references"][name].get(figure))

    series = [
        Series(name, COLOURS[number % len(COLOURS)], _FORMS[number % len(_FORMS)], of_reference(name))
        for number, name in enumerate(references)
    ]
    if monolingual:
        series.append(Series("tokenizer for the language alone", "ink", MONOLINGUAL, _of_own))
    return [*series, Series("this tokenizer", "kept", OWN, lambda entry, figure: _number(entry.get(figure)))]


def _of_own(entry: Entry, figure: str) -> float | None:
    return _number((entry["monolingual"] or {}).get(figure))


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True)
class Axis:
    """Horizontal axis, which maps figures to percentages of the width. Its scale is linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def around(cls, values: Sequence[float], logarithmic: bool) -> Axis:
        """Return an axis for all values, with a small margin. It begins at zero unless it is logarithmic."""
        values = [value for value in values if value > 0 or not logarithmic] or [1.0]
        if logarithmic:
            return cls(min(values) / 1.08, max(values) * 1.08, True)
        return cls(0.0, max(values) * 1.04 or 1.0, False)

    def place(self, value: float) -> float:
        """Return the position of a value, in percent of the width."""
        if self.logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = value / self.high
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def ticks(self) -> list[float]:
        """Return round values for ticks along the axis, at most seven."""
        if not self.logarithmic:
            step = min(one for one in _figures(self.high / 100, (1.0, 2.0, 5.0)) if self.high / one <= 5)
            return [round(step * number, 10) for number in range(int(self.high / step) + 1)]
        found: list[float] = []
        for tick in _figures(self.low / 10, _ROUND):
            apart = all(abs(self.place(tick) - self.place(other)) >= _TICK_DISTANCE for other in found)
            if self.low <= tick <= self.high and apart and len(found) < _MOST_TICKS:
                found.append(tick)
        return sorted(found)


def _figures(start: float, beginnings: Sequence[float]) -> list[float]:
    """Return the leading digits in `beginnings`, each multiplied by six successive powers of ten.

    The smallest power of ten is at most `start`. The values are in the order of `beginnings`.
    """
    power = math.floor(math.log10(start))
    return [round(one * 10.0**exponent, 10) for one in beginnings for exponent in range(power, power + 6)]


def dot_plot(
    languages: Mapping[str, Entry],
    figure: str,
    series: Sequence[Series],
    show: Callable[[float], str],
    *,
    logarithmic: bool = True,
    limit: tuple[float, str] | None = None,
    best_first: bool = False,
) -> str:
    """Return the HTML of a plot of one figure.

    Args:
        languages: report entries by language code. Languages without the figure are left out.
        figure: name of the figure in an entry.
        series: tokenizers to draw. The last one is the reported tokenizer, which orders the languages.
        show: function that formats a value of the figure.
        logarithmic: whether the axis is logarithmic.
        limit: value and label of a dashed line. None for no line.
        best_first: whether larger values are better. The language with the worst value is always drawn first: the one
            with the smallest value if `best_first` is true, and the one with the largest value otherwise.
    """
    own = series[-1].value
    rows = {code: entry for code, entry in languages.items() if own(entry, figure) is not None}
    marks = {
        code: [(one, value) for one in series if (value := one.value(entry, figure)) is not None]
        for code, entry in rows.items()
    }
    every = [value for found in marks.values() for _, value in found]
    if not every:
        return "<p class='note'>No language has this figure.</p>"
    axis = Axis.around([*every, *([] if limit is None else [limit[0]])], logarithmic)
    sign = 1 if best_first else -1
    ordered = sorted(rows, key=lambda code: (sign * (own(rows[code], figure) or 0.0), code))
    ticks = axis.ticks()
    shown = "".join(
        f"<span style='left:{axis.place(tick)}%'>{f'{tick:g}' if logarithmic else show(tick)}</span>" for tick in ticks
    )
    grid = "".join(_line(axis.place(tick), "grid") for tick in ticks)
    grid += _line(axis.place(limit[0]), "limit") if limit is not None else ""
    body = "".join(
        f"<tr><th scope='row'>{escape(rows[code]['name'])} <code>{escape(code)}</code></th>"
        f"<td class='bar'>{_row(marks[code], axis, grid, show)}</td><td class='n'>{show(marks[code][-1][1])}</td></tr>"
        for code in ordered
    )
    head = f"<tr class='axis'><td></td><td class='bar'><div class='ticks'>{shown}</div></td><td></td></tr>"
    present = [one for one in series if any(one in (each for each, _ in found) for found in marks.values())]
    samples = [one.sample for one in reversed(present)] if len(present) > 1 else []
    samples += [_LIMIT_SAMPLE + escape(limit[1]) + "</span>"] if limit is not None else []
    legend = f"<div class='legend'>{''.join(samples)}</div>" if samples else ""
    return f"{legend}<table class='bars plotted'><tbody>{head}{body}</tbody></table>"


def _line(place: float, name: str) -> str:
    return f"<line class='{name}' x1='{place}%' x2='{place}%' y1='0' y2='100%'/>"


def _row(marks: Sequence[tuple[Series, float]], axis: Axis, grid: str, show: Callable[[float], str]) -> str:
    places = [axis.place(value) for _, value in marks]
    words = escape(", ".join(f"{one.name} {show(value)}" for one, value in reversed(marks)))
    span = f"<line class='span' x1='{min(places)}%' x2='{max(places)}%' y1='50%' y2='50%'/>"
    drawn = "".join(
        f"<svg class='mark' x='{place}%' y='50%'>{one.path}</svg>"
        for (one, _), place in zip(marks, places, strict=True)
    )
    return f"<svg class='dots' role='img' aria-label='{words}'><title>{words}</title>{grid}{span}{drawn}</svg>"
