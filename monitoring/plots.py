"""Draw the figures of a training as SVG text. The same records always give the same SVG text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bloomery.base.reduce_curve import Curve, reduce
from bloomery.base.render_figure import COLOUR, svg
from bloomery.contracts.metrics_record import EventRecord, MetricsRecord, ValidationRecord

_EVENT_COLOUR = "#1f3b57"
_MOST_LAYERS = 12
"""Largest number of layers with a line of their own in the figure of trust ratios."""


def _svg(draw: Callable[[Any], None], y_label: str) -> str:
    """Call `draw` on empty axes whose x axis is the iteration, and return the figure as an `<svg>` element."""

    def on_axes(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.set_xlabel("iteration")
        axes.set_ylabel(y_label)
        draw(axes)

    return svg(on_axes)


def metric(
    records: Sequence[MetricsRecord],
    name: str,
    y_label: str,
    *,
    logarithmic: bool = False,
    events: Sequence[EventRecord] = (),
) -> str:
    """Plot one column of the metrics over the iterations, with events as dashed lines.

    A band shows the range of the values if iterations were merged into one point.
    """
    curve = _curve(records, name)

    def draw(axes: Any) -> None:
        for event in events:
            axes.axvline(event.iteration, color=_EVENT_COLOUR, linewidth=0.8, linestyle="--")
        _plot(axes, curve, COLOUR)
        if logarithmic and (curve.low[np.isfinite(curve.low)] > 0).all():
            axes.set_yscale("log")

    return _svg(draw, y_label)


def several(records: Sequence[MetricsRecord], names: dict[str, str], y_label: str) -> str:
    """Plot several columns of the metrics in one figure; `names` maps each column to its text in the legend."""
    from matplotlib import colormaps

    def draw(axes: Any) -> None:
        for number, (name, words) in enumerate(names.items()):
            _plot(axes, _curve(records, name), colormaps["tab10"](number), words)
        axes.legend(fontsize=8)

    return _svg(draw, y_label)


def _curve(records: Sequence[MetricsRecord], name: str) -> Curve:
    values = [getattr(record, name) for record in records]
    return reduce([record.iteration for record in records], [_number(value) for value in values])


def _plot(axes: Any, curve: Curve, colour: Any, label: str | None = None) -> None:
    if curve.merged:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(curve.x, curve.mean, color=colour, label=label)


def trust_ratios(records: Sequence[MetricsRecord], y_label: str) -> str:
    """Plot the median trust ratio of some layers, and the range over all parameters as a band.

    In a deep network, the layers are the first, the last and some blocks between them.
    """
    from matplotlib import colormaps

    found = [(record.iteration, record.trust_ratios) for record in records if record.trust_ratios]
    iterations = [iteration for iteration, _ in found]
    names = list(dict.fromkeys(name for _, ratios in found for name in ratios))
    shown = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, min(_MOST_LAYERS, len(names))).astype(int))]

    def draw(axes: Any) -> None:
        least = [[each[0] for each in ratios.values() if each[0] is not None] for _, ratios in found]
        greatest = [[each[2] for each in ratios.values() if each[2] is not None] for _, ratios in found]
        low = reduce(iterations, [min(values, default=math.nan) for values in least]).low
        high = reduce(iterations, [max(values, default=math.nan) for values in greatest])
        axes.fill_between(high.x, low, high.high, color="grey", alpha=0.25, linewidth=0, label="all parameters")
        for number, name in enumerate(shown):
            medians = [_number(ratios[name][1]) if name in ratios else math.nan for _, ratios in found]
            curve = reduce(iterations, medians)
            colour = colormaps["turbo"](0.08 + 0.84 * number / max(1, len(shown) - 1))
            axes.plot(curve.x, curve.mean, color=colour, linewidth=1.0, label=name)
        if (low[np.isfinite(low)] > 0).all():
            axes.set_yscale("log")
        axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.02))

    return _svg(draw, y_label)


def validation(records: Sequence[ValidationRecord], y_label: str) -> str:
    """Plot the validation loss of each set, and the mean over the sets in black."""
    from matplotlib import colormaps

    names = sorted({name for record in records for name in record.validation})
    iterations = [record.iteration for record in records]

    def draw(axes: Any) -> None:
        for number, name in enumerate(names):
            losses = [_number(record.validation.get(name)) for record in records]
            colour = colormaps["turbo"](0.08 + 0.84 * number / max(1, len(names) - 1))
            axes.plot(iterations, losses, color=colour, linewidth=0.9, marker=".", markersize=3, label=name)
        means = [_number(record.validation_mean) for record in records]
        axes.plot(iterations, means, color="black", linewidth=1.6, marker=".", markersize=3, label="mean")
        axes.legend(fontsize=6, ncols=3 if len(names) > 24 else 2, loc="upper left", bbox_to_anchor=(1.0, 1.02))

    return _svg(draw, y_label)


def _number(value: float | None) -> float:
    """Return `value`, or NaN if it is None (not finite or not measured). NaN is drawn as a gap in the line."""
    return math.nan if value is None else value
