"""Test the speed of a training, which is a quotient and not a mean of rates."""

from __future__ import annotations

import pytest
from step_records import step

from bloomery.detect.speed import speed_of


def test_the_speed_is_all_tokens_divided_by_all_seconds() -> None:
    fast = [step(number, seconds=1.0, tokens_per_second=2000.0) for number in (1, 2)]
    slow = step(3, seconds=8.0, tokens_per_second=250.0)
    found = speed_of([*fast, slow])
    assert (found.iterations, found.tokens, found.seconds) == (3, 6000, 10.0)
    assert found.tokens_per_second == 600
    assert found.median_tokens_per_second == 2000


def test_rates_are_weighted_by_time() -> None:
    records = [
        step(1, seconds=1.0, tflops_hardware=4.0, tflops_model=3.0, mfu=0.5),
        step(2, seconds=3.0, tflops_hardware=2.0, tflops_model=1.5, mfu=0.1),
    ]
    found = speed_of(records)
    assert found.tflops_hardware == pytest.approx((4 + 3 * 2) / 4)
    assert found.tflops_model == pytest.approx((3 + 3 * 1.5) / 4)
    assert found.mfu == pytest.approx((0.5 + 3 * 0.1) / 4)


def test_mfu_is_unknown_without_the_peak_of_the_device() -> None:
    assert speed_of([step(1)]).mfu is None
