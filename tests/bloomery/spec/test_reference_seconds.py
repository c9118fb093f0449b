"""Test the estimated time of the reference logits of a save."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.checkpoint_size import checkpoint_bytes
from bloomery.spec.duration import save_seconds
from bloomery.spec.reference_seconds import reference_seconds


def with_plan(config: RunConfig, **changes: object) -> RunConfig:
    return config.model_copy(update={"plan": config.plan.model_copy(update=changes)})


def test_blooms_reference_takes_20_turns_of_a_stage(bloom: RunConfig) -> None:
    # 2 operations for each of the 176.2 B parameters and 2,048 tokens, on 12 stages of 4 GPUs. Attention adds 2 %.
    turn = 2 * 176.2e9 * 2048 / (12 * 4 * 19.5e12 * 0.761)
    assert reference_seconds(bloom) == pytest.approx((9 + 12 - 1) * turn, rel=0.03)
    assert reference_seconds(with_plan(bloom, gpu=None)) == 0


def test_the_time_of_a_save_includes_the_reference_unless_it_is_stated(bloom: RunConfig) -> None:
    assert save_seconds(bloom) == 40
    computed = with_plan(bloom, save_seconds=None, write_gb_per_second=100.0)
    written = checkpoint_bytes(bloom) / 100e9
    assert save_seconds(computed) == pytest.approx(written + reference_seconds(bloom))
    assert save_seconds(with_plan(computed, gpu=None)) == pytest.approx(written)
    assert save_seconds(with_plan(bloom, save_seconds=None)) == 0
