"""Command `bloomery plan simulate`: simulate a training of months many times, and report its duration and losses."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bloomery.base.print_table import print_titled
from planner.plan_options import Gpu, load_planned

if TYPE_CHECKING:
    from planner.simulation.calibration import Rate, Rates
    from planner.simulation.scenario import Scenario
    from planner.simulation.simulate import Summary
    from planner.simulation.simulate_replicate import JobSpan, Replicate

_PATIENCE_SECONDS = 2.0


def simulate(
    file: Annotated[
        Path, typer.Argument(help="YAML file with the configuration of a run, such as config/models/tr11-176b.yaml.")
    ],
    replicates: Annotated[int, typer.Option(min=1, help="Number of trainings to simulate.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed. The same seed simulates the same trainings.")] = 0,
    days_between_failures: Annotated[
        float | None, typer.Option(help="Mean days between two failures, instead of plan.faults.days_between_failures.")
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of iterations between two saves, instead of the intervals in training.checkpoint."
        ),
    ] = None,
    incidents: Annotated[
        str | None,
        typer.Option(
            help="TOML file of past incidents, from which the rates of failures are estimated, or `bloom` for the "
            "incidents of the first month of BLOOM's training."
        ),
    ] = None,
    stop_at_days: Annotated[
        float | None, typer.Option(help="Stop each simulated training after this many days.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="File (.svg or .png) for a plot of the training's progress.")
    ] = None,
    gpu: Gpu = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")] = False,
) -> None:
    """Simulate a long training many times, with failures, maintenances and waits in the queue, and print how long it
    takes and which hours are lost."""
    from dataclasses import replace

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from planner.simulation.calibration import calibrate, load_incidents
    from planner.simulation.scenario import scenario_of
    from planner.simulation.simulate import summarise
    from planner.simulation.timeline import Timeline

    if stop_at_days is not None and not 0 < stop_at_days < math.inf:
        raise ConfigError(f"--stop-at-days is {stop_at_days:g}", expected="a number of days above 0")
    if figure is not None:
        from planner.simulation.simulation_figure import check_name

        check_name(figure)
    config = load_planned(file, as_json=as_json, gpu=gpu)
    scenario, rates = scenario_of(config), None
    if save_every is not None:
        scenario = replace(scenario, save_every_iterations=save_every, save_rules=(), save_at_iterations=())
    if incidents is not None:
        rates = calibrate(load_incidents(incidents))
    if days_between_failures is not None:
        scenario = replace(scenario, days_between_failures=days_between_failures)
        rates = None if rates is None else replace(rates, failures=None)
    if rates is not None:
        scenario = rates.estimated(scenario)
    played = _play(scenario, replicates, seed, rates, stop_at_days, with_spans=figure is not None)
    summary = summarise([replicate for replicate, _ in played])
    uninterrupted = Timeline(scenario).done[-1] / 86_400
    if figure is not None:
        from planner.simulation.simulation_figure import curves, write_figure

        write_figure(figure, curves(scenario, played))
    if as_json:
        given = {"name": config.name, "seed": seed, "stop_at_days": stop_at_days, "uninterrupted_days": uninterrupted}
        print(dump_json({**given, **_as_json(scenario, summary, rates)}), end="")
    else:
        _print(scenario, summary, uninterrupted, stop_at_days)
    for line in _remarks(scenario, rates):
        say(line)
    if figure is not None:
        say(f"figure: {figure}")
    else:
        say(
            f"next: bloomery plan simulate {file} with --save-every N (to compare save intervals) or "
            "--figure simulation.svg (to plot the progress)"
        )


def _play(
    scenario: Scenario, count: int, seed: int, rates: Rates | None, stop_at_days: float | None, *, with_spans: bool
) -> list[tuple[Replicate, list[JobSpan]]]:
    """Simulate all replicates. A progress bar is shown if this takes longer than `_PATIENCE_SECONDS`."""
    from bloomery.base.progress import Progress
    from planner.simulation.simulate import replicates

    started, bar = time.monotonic(), None
    played = []
    with ExitStack() as stack:
        for each in replicates(scenario, count, seed, rates=rates, stop_at_days=stop_at_days, with_spans=with_spans):
            played.append(each)
            if bar is not None:
                bar.advance()
            elif time.monotonic() - started > _PATIENCE_SECONDS:
                bar = stack.enter_context(Progress("simulate", count, "trainings"))
                bar.advance(len(played))
    return played


def _print(scenario: Scenario, summary: Summary, uninterrupted: float, stop_at_days: float | None) -> None:
    def day(value: float) -> str:
        return "unfinished" if math.isinf(value) else f"{value:.1f}" if value >= 10 else f"{value:.3g}"

    rows = [("days to the end", *(day(value) for value in summary.finish_days.values()))]
    if stop_at_days is not None:
        rows.append((f"iteration on day {stop_at_days:g}", *(f"{value:,.0f}" for value in summary.iteration.values())))
    rows.append(("checkpoints retained", *(f"{value:,.0f}" for value in summary.checkpoints_kept.values())))
    title = f"{summary.replicates:,} simulated trainings of {scenario.iterations:,} iterations"
    print_titled(("", *(f"{percent} %" for percent in summary.finish_days)), rows, title)
    hours = {"useful": summary.useful_hours, **summary.lost_hours}
    shares = [(cause, f"{spent:,.1f}", f"{100 * spent / summary.wall_hours:.2f} %") for cause, spent in hours.items()]
    print_titled(("", "mean hours", "share"), shares, "Use of the wall-clock hours")
    counts = [
        ("time without interruptions", f"{uninterrupted:.1f} days, with saves and validations"),
        ("goodput", f"{100 * summary.goodput:.2f} % of the hours are useful training"),
        ("failures", f"{summary.failures:.1f}"),
        ("maintenances", f"{summary.maintenances:.1f}"),
        ("planned restarts", f"{summary.stops:.1f}"),
        ("jobs", f"{summary.jobs:.1f}"),
        ("checkpoints on disk", f"at most {summary.checkpoints_at_most}, including the one being written"),
    ]
    print_titled((), counts, "Summary (events and jobs: means over the simulated trainings)")


def _remarks(scenario: Scenario, rates: Rates | None) -> list[str]:
    """Return remarks about the rates for the user."""
    if rates is None:
        if scenario.days_between_failures is None:
            return [
                "no failures assumed; to assume some, set the key plan.faults.days_between_failures, or the option "
                "--days-between-failures or --incidents"
            ]
        return []
    lines = [
        f"{name.replace('wanted', 'planned')}: {rate.events} in {rate.days:.1f} days, so one every {_range(rate)} days "
        "(90 % confidence interval)"
        for name, rate in _named(rates).items()
    ]
    lines.append("the rates are uncertain because there are few events, so each simulated training draws its own rates")
    if rates.maintenance_hours is None and scenario.days_between_maintenances is not None:
        lines.append(
            "the incidents do not state how long a maintenance takes, so the simulation assumes "
            f"{scenario.maintenance_hours:g} h"
        )
    return lines


def _named(rates: Rates) -> dict[str, Rate]:
    named = {"failures": rates.failures, "maintenances": rates.maintenances, "wanted restarts": rates.stops}
    return {name: rate for name, rate in named.items() if rate is not None}


def _range(rate: Rate) -> str:
    least, most = rate.interval()
    return f"{least:.1f} or more" if most is None else f"{least:.1f} to {most:.1f}"


def _as_json(scenario: Scenario, summary: Summary, rates: Rates | None) -> dict[str, Any]:
    from dataclasses import asdict

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): finite(inner) for key, inner in value.items()}
        return None if isinstance(value, float) and math.isinf(value) else value

    assumed = {key: value for key, value in asdict(scenario).items() if key != "phases"}
    estimates = (
        {
            name.replace(" ", "_"): {
                "events": rate.events,
                "days": rate.days,
                "days_between": rate.days_between,
                "days_between_90_percent": list(rate.interval()),
            }
            for name, rate in _named(rates).items()
        }
        if rates is not None
        else None
    )
    found: dict[str, Any] = finite(asdict(summary))
    return {
        **found,
        "iterations": scenario.iterations,
        "goodput": summary.goodput,
        "assumed": assumed,
        "rates": estimates,
    }
