"""Figures as SVG text or PNG in the project's style. Figures of the same data have the same bytes, because they contain
no dates and no random ids."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

COLOUR = "#b3541e"
SECOND_COLOUR = "#2f6f73"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bloomery",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e2dd",
    "axes.edgecolor": "#8a8178",
    "lines.linewidth": 1.2,
}


def svg(draw: Callable[[Any], None], size_inches: tuple[float, float] = (6.4, 3.0), *, transparent: bool = True) -> str:
    """Return the figure that `draw` fills, as an `<svg>` element. `draw` receives an empty matplotlib Figure."""
    options = {"format": "svg", "transparent": transparent, "metadata": {"Date": None, "Creator": None}}
    text = _rendered(draw, size_inches, options).decode("utf-8")
    return text[text.index("<svg") :]


def png(
    draw: Callable[[Any], None], size_inches: tuple[float, float] = (6.4, 3.0), *, dots_per_inch: int = 150
) -> bytes:
    """Return the figure that `draw` fills, as a PNG with a white background. `draw` receives an empty matplotlib
    Figure."""
    return _rendered(draw, size_inches, {"format": "png", "dpi": dots_per_inch, "metadata": {"Software": None}})


def _rendered(draw: Callable[[Any], None], size_inches: tuple[float, float], options: dict[str, Any]) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size_inches, layout="constrained")
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, **options)
    return buffer.getvalue()
