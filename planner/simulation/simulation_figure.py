"""Draw the figure of a simulation: the progress of the training over the days, and the time at which it finishes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_bytes, write_text
from bloomery.base.errors import ConfigError
from bloomery.base.render_figure import COLOUR, SECOND_COLOUR, png, svg
from planner.simulation.scenario import Scenario
from planner.simulation.simulate import PERCENTS, quantiles
from planner.simulation.simulate_replicate import JobSpan, Replicate
from planner.simulation.timeline import Timeline

_POINTS = 201
_SAMPLES = 5
_SIZE_INCHES = (8.4, 3.2)


@dataclass(frozen=True)
class Curves:
    """Data of the figure."""

    days: list[float]
    bands: dict[int, list[float]]
    """Quantiles of the iteration on each of `days`, by percent."""
    samples: list[list[float]]
    """Number of iterations that each of the first replicates has completed on each of `days`."""
    uninterrupted: list[float]
    """Number of iterations that a training without interruptions has completed on each of `days`."""
    finish_days: list[float]
    """Days to the end, for each replicate that finished."""
    iterations: list[int]
    """Iteration at the end of each replicate."""


def curves(scenario: Scenario, played: Sequence[tuple[Replicate, list[JobSpan]]]) -> Curves:
    """Return the figure's data. `played` holds at least one replicate, each with the training periods of its jobs."""
    work = Timeline(scenario)
    last = max(replicate.wall_days for replicate, _ in played)
    days = [last * point / (_POINTS - 1) for point in range(_POINTS)]
    lines = [progress(work, replicate, spans, days) for replicate, spans in played]
    across = [quantiles(iterations) for iterations in zip(*lines, strict=True)]
    return Curves(
        days=days,
        bands={percent: [at[percent] for at in across] for percent in PERCENTS},
        samples=lines[:_SAMPLES],
        uninterrupted=[float(work.reached(86_400 * day, work.iterations)) for day in days],
        finish_days=[replicate.finish_days for replicate, _ in played if replicate.finish_days is not None],
        iterations=[replicate.iteration for replicate, _ in played],
    )


def progress(work: Timeline, replicate: Replicate, spans: Sequence[JobSpan], days: Sequence[float]) -> list[float]:
    """Return the number of iterations completed on each of `days`.

    Between two jobs' training periods this is the iteration from which the next job starts.
    """
    starts = [span.start for span in spans]
    found = []
    for day in days:
        number = bisect_right(starts, 86_400 * day) - 1
        if day >= replicate.wall_days:
            found.append(float(replicate.iteration))
        elif number < 0:
            found.append(0.0)
        elif (into := 86_400 * day - starts[number]) <= spans[number].seconds:
            span = spans[number]
            found.append(float(work.reached(work.done[span.base] + into, span.last)))
        else:
            found.append(float(spans[number + 1].base if number + 1 < len(spans) else replicate.iteration))
    return found


def drawing(shown: Curves) -> Callable[[Any], None]:
    """Return a function that draws the curves on an empty matplotlib Figure."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        left.yaxis.set_major_formatter("{x:,.0f}")
        left.plot(shown.days, shown.uninterrupted, color="#8a8178", linestyle=":", label="uninterrupted")
        for number, sample in enumerate(shown.samples):
            label = "single trainings" if not number else None
            left.plot(shown.days, sample, color=SECOND_COLOUR, alpha=0.5, linewidth=0.6, label=label)
        for low, high, alpha in ((5, 95, 0.2), (25, 75, 0.4)):
            label = f"{low} to {high} %"
            left.fill_between(
                shown.days, shown.bands[low], shown.bands[high], color=COLOUR, alpha=alpha, linewidth=0, label=label
            )
        left.plot(shown.days, shown.bands[50], color=COLOUR, label="median")
        left.set_xlabel("days")
        left.set_ylabel("iteration")
        left.legend(frameon=False, fontsize=8)
        finished = len(shown.finish_days) == len(shown.iterations)
        values = shown.finish_days if finished else shown.iterations
        right.set_axisbelow(True)
        right.hist(values, bins=min(40, max(10, math.isqrt(len(values)))), color=COLOUR, alpha=0.6)
        for percent in (5, 50, 95):
            place = quantiles(values)[percent]
            right.axvline(place, color=COLOUR, linestyle="-" if percent == 50 else "--", linewidth=0.9)
        right.set_xlabel("days to the end" if finished else f"iteration after {shown.days[-1]:g} days")
        right.set_ylabel("trainings")

    return draw


def check_name(path: Path) -> None:
    """Raise ConfigError if the file's suffix is neither .svg nor .png."""
    if path.suffix not in (".svg", ".png"):
        raise ConfigError(
            f"cannot write a figure as {path.suffix!r}",
            where=str(path),
            expected="a file name that ends with .svg or .png",
        )


def write_figure(path: Path, shown: Curves) -> None:
    """Write the figure as SVG or PNG, depending on the file's suffix.

    Raises:
        ConfigError: the suffix is neither .svg nor .png.
    """
    check_name(path)
    if path.suffix == ".svg":
        write_text(path, svg(drawing(shown), _SIZE_INCHES) + "\n")
    else:
        write_bytes(path, png(drawing(shown), _SIZE_INCHES))
