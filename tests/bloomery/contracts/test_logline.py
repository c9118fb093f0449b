"""Test that log lines of BigScience, Megatron-LM and Bloomery are parsed and rendered."""

from __future__ import annotations

import math
from typing import Any

import pytest
from repository import TR11_LOG

from bloomery.contracts.logline import LogLine, parse_line, render, render_line
from bloomery.contracts.metrics_record import MetricsRecord

PUBLISHED = TR11_LOG
MEGATRON = (
    " [2026-01-02 03:04:05] iteration      100/    5000 | consumed samples:        25600 | elapsed time per iteration"
    " (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 1.500000E-05 | global batch size:   256"
    " | lm loss: 8.123456E+00 | loss scale: 1.0 | grad norm: 2.345 | params norm: 17.5 | number of skipped iterations:"
    "   0 | number of nan iterations:   0 |"
)


def test_a_published_line_is_rendered_exactly_as_it_was_parsed() -> None:
    for text in PUBLISHED.read_text().splitlines():
        line = parse_line(text)
        assert line is not None
        assert f"[default7]:{render_line(line)}" == text.lstrip()


def test_a_line_of_todays_megatron_is_parsed() -> None:
    line = parse_line(MEGATRON)
    assert line == LogLine(
        iteration=100,
        total_iterations=5000,
        consumed_samples=25_600,
        seconds=1.2345,
        learning_rate=1.5e-5,
        global_batch_size=256,
        loss=8.123456,
        loss_scale=1.0,
        grad_norm=2.345,
        skipped_iterations=0,
        nan_iterations=0,
        tflops=401.2,
        other={"params norm": "17.5"},
    )


@pytest.mark.parametrize("text", ["", "validation loss at iteration 3 on fr | lm loss value: 1.0 |", "iteration 3"])
def test_other_lines_are_ignored(text: str) -> None:
    assert parse_line(text) is None


def test_only_complete_columns_of_a_truncated_line_are_parsed() -> None:
    text = PUBLISHED.read_text().splitlines()[0]
    line = parse_line(text[: text.index("9841584") + 3])
    assert line == LogLine(iteration=12_695, total_iterations=115_311)


def measured(**changes: Any) -> MetricsRecord:
    values: dict[str, Any] = {
        "iteration": 7,
        "total_iterations": 90,
        "consumed_samples": 56,
        "consumed_tokens": 448,
        "global_batch_size": 8,
        "learning_rate": 1e-3,
        "loss": 5.0,
        "grad_norm": 1.0,
        "seconds": 0.1,
        "tokens_per_second": 640.0,
        "tflops_hardware": 0.4,
        "tflops_model": 0.3,
        "samples_per_second": 80.0,
        "segment": 1,
        "time": "2026-01-01T00:00:00Z",
    }
    return MetricsRecord.model_validate(values | changes)


def test_our_line_has_exactly_the_measured_columns() -> None:
    assert render(measured()) == (
        " iteration        7/      90 | consumed samples:           56 | consumed tokens:          448"
        " | elapsed time per iteration (s): 0.10 | learning rate: 1.000E-03 | global batch size:     8"
        " | lm loss: 5.000000E+00 | grad norm: 1.000 | number of skipped iterations:   0"
        " | number of nan iterations:   0 | samples per second: 80.000 | TFLOPs: 0.40 |"
    )
    left_out = parse_line(render(measured(loss=math.nan, grad_norm=math.nan, update_skipped=True, skipped_updates=9)))
    assert left_out is not None
    assert (left_out.skipped_iterations, left_out.nan_iterations) == (1, 1), (
        "counts since the previous line, as in Megatron's log"
    )
    assert left_out.loss is not None
    assert math.isnan(left_out.loss)
    fp16 = {"grad_norm": math.inf, "update_skipped": True, "loss_scale": 1.0}
    for changes, is_nan in (
        ({"overflowed": True}, 0),  # fp16 still searches for a loss scale
        ({"overflowed": False}, 1),  # fp16 is at its minimum loss scale
        ({"overflowed": True, "loss": math.nan}, 1),
        ({"loss_scale": None}, 1),  # bf16 has no loss scale
        ({"loss_scale": None, "grad_norm": 1.0}, 0),  # a guard skipped the update
    ):
        line = parse_line(render(measured(**fp16 | changes)))
        assert line is not None
        assert (line.skipped_iterations, line.nan_iterations) == (1, is_nan), changes
