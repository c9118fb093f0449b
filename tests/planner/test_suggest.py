"""Test that suggested layouts are sorted by speed, and that rejected layouts have a reason."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.duration import iteration_seconds
from planner.suggest import suggest

GIB = 2**30


def test_possible_layouts_are_sorted_by_speed_and_others_have_a_reason(bloom: RunConfig) -> None:
    found = suggest(bloom, 384, 80 * GIB, 2048)
    good = [each for each in found if each.reason is None]
    assert good
    assert found[: len(good)] == good
    assert [each.tflops_model for each in good] == sorted((each.tflops_model for each in good), reverse=True)
    for each in found:
        assert each.tensor * each.pipeline * each.data == 384
        assert (each.reason is None) == (each.seconds_per_iteration > 0)
    ran = next(each for each in found if (each.tensor, each.pipeline, each.micro_batch_size) == (4, 12, 2))
    assert ran.reason is None
    reasons = " ".join(each.reason or "" for each in found)
    for said in ("heads cannot be divided by the tensor", "cannot fill", "is not divisible by micro-batch", "needs"):
        assert said in reasons
    assert all(each.reason for each in suggest(bloom, 8, 80 * GIB, 2048))


def test_the_estimate_of_blooms_layout_equals_its_published_speed(bloom: RunConfig) -> None:
    unstated = bloom.model_copy(update={"plan": bloom.plan.model_copy(update={"tflops_hardware": None})})
    ran = next(
        each
        for each in suggest(bloom, 384, 80 * GIB, 2048)
        if (each.tensor, each.pipeline, each.micro_batch_size, each.activation_checkpointing) == (4, 12, 2, "full")
    )
    assert ran.seconds_per_iteration == pytest.approx(iteration_seconds(unstated, 2048))
    assert ran.tflops_hardware == pytest.approx(149, abs=1)
