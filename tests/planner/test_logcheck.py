"""Test the comparison of a training's log with its plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repository import TR11_LOG

from bloomery.config.run import RunConfig
from bloomery.contracts.logline import LogLine, parse_line, read_log
from planner.logcheck import departures
from planner.planned_state import speed_at, state_at

LOG = TR11_LOG
"""Lines of BLOOM's published main_log.txt, from the end of the ramp-up and the loss spike of April 2022."""


def test_the_published_log_agrees_with_the_plan(bloom: RunConfig) -> None:
    lines = list(read_log(LOG))
    assert len(lines) == 12
    assert list(departures(bloom, lines)) == []


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("9841584", "9841585", "consumed_samples"),
        ("20155564032", "20155566080", "consumed_tokens"),
        ("5.969E-05", "5.968E-05", "learning_rate"),
        ("  2048", "  2032", "global_batch_size"),
        ("115311", "115310", "total_iterations"),
        ("149.02", "149.05", "tflops"),
        ("19.463", "19.466", "samples_per_second"),
    ],
)
def test_a_change_of_one_digit_is_reported(bloom: RunConfig, before: str, after: str, column: str) -> None:
    text = LOG.read_text().splitlines()[0]
    assert before in text
    line = parse_line(text.replace(before, after))
    assert line is not None
    assert [each.column for each in departures(bloom, [(1, line)])] == [column]


def test_a_short_time_that_was_rounded_up_is_not_reported(bloom: RunConfig) -> None:
    # 0.145 s is printed as 0.15, but the printed speed belongs to 0.145 s.
    state = state_at(bloom, iteration=1)
    speed = speed_at(bloom, state, 0.14501)
    line = LogLine(1, 115_311, seconds=0.15, samples_per_second=speed.samples_per_second, tflops=speed.tflops_hardware)
    assert list(departures(bloom, [(1, line)])) == []
    faster = replace(line, samples_per_second=192 / 0.144)
    assert [each.column for each in departures(bloom, [(1, faster)])] == ["samples_per_second"]
