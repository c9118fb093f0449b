"""Test that the loop's steps follow the plan's trajectory from any position."""

from __future__ import annotations

import pytest

from bloomery.config.model import ModelConfig
from bloomery.config.training import BatchConfig, ParallelConfig, TrainingConfig
from bloomery.spec.batch import samples_of_time
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.next_step import next_step
from bloomery.spec.trajectory import trajectory

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


def test_the_micro_batch_size_changes_with_the_batch_size() -> None:
    changes = [{"from_batch": 16, "size": 4}, {"from_batch": 32, "size": 16}]
    config = training(skip=[])
    batch = BatchConfig.model_validate(config.batch.model_dump() | {"micro_batch_changes": changes})
    config = config.model_copy(update={"batch": batch})
    found = []
    samples = 0
    while samples < 400:
        step = next_step(MODEL, config, samples, 0)
        assert step is not None
        found.append((step.global_batch_size, step.micro_batch_size))
        samples = step.batch.end
    assert sorted(set(found)) == [(8, 2), (16, 4), (24, 4), (32, 16)]
    # A step takes m + p - 1 time slots of a micro-batch: m = 24 / (2 x 4) = 3 slots with 4 samples each, and 2 slots of
    # the bubble.
    assert samples_of_time(batch, ParallelConfig(data=2, pipeline=3), 24) == (3 + 2) * 4


@pytest.mark.parametrize(
    "changes",
    [{}, {"skip": []}, {"train_tokens": 20_000}, {"curriculum": None, "skip": [{"from_sample": 0, "to_sample": 9}]}],
)
def test_next_step_follows_the_trajectory_from_the_position_alone(changes: dict[str, object]) -> None:
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
