"""Test the figure of simulated trainings."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bloomery.base.errors import ConfigError
from planner.simulation.scenario import Phase, Scenario
from planner.simulation.simulate import replicates
from planner.simulation.simulation_figure import check_name, curves, write_figure
from planner.simulation.timeline import Timeline


def own_campaign() -> Scenario:
    return Scenario(
        phases=(Phase(100, 600.0), Phase(200, 1800.0)),
        save_every_iterations=10,
        save_seconds=60.0,
        validation_every_iterations=50,
        restart_minutes=10.0,
        days_between_failures=1.0,
        queue_hours=2.0,
    )


def test_the_figure_is_well_formed_and_reproducible(tmp_path: Path) -> None:
    written = []
    for name in ("one.svg", "two.svg"):
        shown = curves(own_campaign(), list(replicates(own_campaign(), 60, with_spans=True)))
        write_figure(tmp_path / name, shown)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    root = ElementTree.fromstring(written[0])
    words = {"".join(text.itertext()).strip() for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"days", "iteration", "median", "5 to 95 %", "days to the end", "trainings"} <= words
    write_figure(tmp_path / "one.png", shown)
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG\r\n")
    with pytest.raises(ConfigError):
        check_name(tmp_path / "one")


def test_bands_are_ordered_and_curves_end_at_the_last_iteration() -> None:
    own = own_campaign()
    played = list(replicates(own, 60, with_spans=True))
    shown = curves(own, played)
    for low, high in ((5, 25), (25, 50), (50, 75), (75, 95)):
        assert all(a <= b for a, b in zip(shown.bands[low], shown.bands[high], strict=True))
    assert all(line[0] == 0 and line[-1] == 300 for line in shown.samples)
    assert all(line <= free for line, free in zip(shown.bands[95], shown.uninterrupted, strict=True))
    assert shown.uninterrupted[-1] == 300
    assert Timeline(own).done[-1] / 86_400 < min(shown.finish_days)


def test_a_curve_equals_the_iteration_of_a_simulation_that_stops_on_that_day() -> None:
    own = own_campaign()
    played = list(replicates(own, 5, with_spans=True))
    shown = curves(own, played)
    for point in (20, 50, 90):
        stopped = [replicate for replicate, _ in replicates(own, 5, stop_at_days=shown.days[point])]
        assert [line[point] for line in shown.samples] == [replicate.iteration for replicate in stopped]
