"""Test the seconds of an iteration and the pipeline's bubble."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.duration import bubble_fraction, iteration_seconds


def test_the_bubble_fraction_follows_the_stages_and_micro_batches() -> None:
    assert bubble_fraction(1, 5) == 0
    assert bubble_fraction(12, 128) == pytest.approx(11 / 139)


def test_a_faster_network_shortens_the_iteration(bloom: RunConfig) -> None:
    def seconds(rate: float | None) -> float:
        plan = bloom.plan.model_copy(update={"tflops_hardware": None, "network_gb_per_second": rate})
        return iteration_seconds(bloom.model_copy(update={"plan": plan}), 2048)

    assert seconds(25) < seconds(None) == seconds(6.25) < seconds(1)
