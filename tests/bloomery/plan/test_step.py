"""The loop's next step, walked from any position, is the plan's trajectory."""

from __future__ import annotations

import pytest

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.plan.schedule import learning_rate_at
from bloomery.plan.step import next_step
from bloomery.plan.trajectory import trajectory

MODEL = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=64)


def training(**changes: object) -> TrainingConfig:
    values = {
        "train_samples": 1000,
        "batch": {
            "micro_batch_size": 2,
            "global_batch_size": 32,
            "rampup": {"start": 8, "increment": 8, "samples": 200},
        },
        "optimizer": {"learning_rate": 0.01, "warmup_samples": 100},
        "curriculum": {"start_length": 8, "samples": 500},
        "skip": [{"from_sample": 100, "to_sample": 133}, {"from_sample": 700, "to_sample": 705}],
    }
    return TrainingConfig.model_validate(values | changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"skip": []}, {"train_tokens": 20_000}, {"curriculum": None, "skip": [{"from_sample": 0, "to_sample": 9}]}],
)
def test_steps_from_the_position_alone_walk_the_trajectory(changes: dict[str, object]) -> None:
    config = training(**changes)
    plan, samples, tokens, skipped, trained, iteration = trajectory(MODEL, config), 0, 0, 0, [], 0
    while (step := next_step(MODEL, config, samples, tokens)) is not None:
        iteration += 1
        samples, tokens, skipped = step.batch.end, tokens + step.tokens, skipped + step.skipped_samples
        trained += step.batch.samples
        point = plan.after_iteration(iteration)
        assert (point.consumed_samples, point.consumed_tokens, point.skipped_samples) == (samples, tokens, skipped)
        assert (point.global_batch_size, point.sequence_length) == (step.global_batch_size, step.sequence_length)
        assert step.learning_rate == learning_rate_at(MODEL, config, samples, tokens)
    assert iteration == plan.iterations
    holes = {n for each in config.skip for n in range(each.from_sample, each.to_sample)}
    assert trained == [n for n in range(samples) if n not in holes]
