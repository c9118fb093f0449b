"""Test the learning rate during a training for every schedule."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.model import ModelConfig
from bloomery.config.training import (
    BatchConfig,
    OptimizerConfig,
    TrainingConfig,
)
from bloomery.spec.learning_rate import learning_rate, learning_rate_at

MODEL = ModelConfig(layers=2, hidden_size=16, heads=2, sequence_length=64)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_learning_rate_warms_up_decays_and_ends_at_its_minimum(schedule: str) -> None:
    optimizer = OptimizerConfig(
        learning_rate=1.0, min_learning_rate=0.1, warmup_samples=100, decay_samples=900, schedule=schedule
    )
    rates = [learning_rate(optimizer, consumed, 1000) for consumed in range(0, 1001, 10)]
    assert rates[0] == 0.0
    assert rates[5] == pytest.approx(0.5)
    assert max(rates) == rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == (1.0 if schedule == "constant" else 0.1)
    if schedule == "linear":
        assert learning_rate(optimizer, 500, 1000) == pytest.approx(0.55)


def _batch(size: int) -> BatchConfig:
    return BatchConfig(global_batch_size=size)


@given(
    st.sampled_from(["cosine", "linear", "wsd"]),
    st.integers(1, 500),
    st.integers(501, 4000),
    st.sampled_from(["samples", "tokens"]),
    st.sampled_from(["samples", "tokens"]),
    st.floats(0, 1),
    st.floats(0.01, 1),
)
def test_the_learning_rate_is_continuous(
    schedule: str, warmup: int, end: int, warms_by: str, decays_by: str, least: float, share: float
) -> None:
    # Lipschitz continuity: a step of one sample changes the rate by at most the steepest slope of the schedule, also
    # between two phases.
    length = MODEL.sequence_length
    scale = {"samples": 1, "tokens": length}
    cooldown = max(1, int(share * (end - warmup)))
    values = {f"warmup_{warms_by}": warmup * scale[warms_by], f"decay_{decays_by}": end * scale[decays_by]}
    if schedule == "wsd":
        values[f"cooldown_{decays_by}"] = cooldown * scale[decays_by]
    optimizer = OptimizerConfig.model_validate(
        {"learning_rate": 1.0, "min_learning_rate": least, "schedule": schedule, **values}
    )
    training = TrainingConfig(train_samples=5000, batch=_batch(1), optimizer=optimizer)
    rates = [learning_rate_at(MODEL, training, consumed, consumed * length) for consumed in range(0, end + 50)]
    falls = cooldown if schedule == "wsd" else end - warmup
    steepest = max(1 / warmup, 1.6 * (1 - least) / falls)
    assert max(abs(after - before) for before, after in itertools.pairwise(rates)) <= steepest + 1e-9
    assert (max(rates), rates[0], rates[-1]) == (1.0, 0.0, least)
    if schedule == "wsd":
        assert rates[warmup : end - cooldown + 1] == [1.0] * (end - cooldown - warmup + 1)
        assert rates[end] == pytest.approx(least)


def test_wsd_without_a_cooldown_decays_over_the_last_tenth() -> None:
    optimizer = OptimizerConfig(learning_rate=2.0, warmup_samples=100, schedule="wsd")
    training = TrainingConfig(train_samples=1000, batch=_batch(1), optimizer=optimizer)
    rates = [learning_rate_at(MODEL, training, consumed, 0) for consumed in (50, 100, 900, 950, 1000)]
    assert rates == pytest.approx([1.0, 2.0, 2.0, 1.0, 0.0])
