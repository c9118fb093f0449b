"""Test that `training.batch_scaling` gives the learning rates and warm-ups of published large-batch scripts.

The numbers are those of the scripts in github.com/anxuthu/megatron for T5 and for a BERT with 4 layers.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.model import ModelConfig
from bloomery.config.training import BatchScalingConfig, TrainingConfig
from bloomery.spec.batch_scaling import describe_scaling, resolved_optimizer, scaled_learning_rate
from bloomery.spec.learning_rate import learning_rate_at, warmup_iterations
from bloomery.spec.next_step import next_step
from bloomery.spec.trajectory import trajectory

MODEL = ModelConfig(layers=2, hidden_size=16, heads=2, sequence_length=64)
T5 = BatchScalingConfig(base_batch=512, base_learning_rate=2.83e-3, cap=1.13e-2, warmup_iterations=1024)
LONGER_BERT = BatchScalingConfig(base_batch=2048, base_learning_rate=0.01, floor=0.01, cap=0.02)


def _training(**changes: Any) -> TrainingConfig:
    """Return a training of 100 full batches with the scaling of T5 and a warm-up of 10 iterations."""
    values: dict[str, Any] = {
        "train_samples": 51_200,
        "batch": {"global_batch_size": 512},
        "batch_scaling": {"base_batch": 512, "base_learning_rate": 2.83e-3, "warmup_iterations": 10},
        "optimizer": {"schedule": "linear"},
    }
    return TrainingConfig.model_validate(values | changes)


@pytest.mark.parametrize(("batch", "rate"), [(512, 2.83e-3), (2048, 5.66e-3), (16_384, 11.3e-3)])
def test_t5s_published_learning_rates(batch: int, rate: float) -> None:
    assert scaled_learning_rate(T5, batch) == rate
    # Without the cap, the largest batch would have 16.0e-3.
    assert scaled_learning_rate(T5.model_copy(update={"cap": None}), 16_384) == pytest.approx(16.0e-3, abs=0.05e-3)


@pytest.mark.parametrize(
    ("batch", "rate"),
    [(512, 0.01), (1024, 0.01), (2048, 0.01), (4096, 0.01 * math.sqrt(2)), (8192, 0.02), (16_384, 0.02)],
)
def test_the_published_learning_rates_of_the_longer_bert_runs(batch: int, rate: float) -> None:
    assert scaled_learning_rate(LONGER_BERT, batch) == rate


def test_the_published_learning_rates_of_the_short_bert_runs() -> None:
    scaling = load_config(ROOT / "config/models/bert-4l.yaml").training.batch_scaling
    assert scaling is not None
    assert (scaled_learning_rate(scaling, 4096), scaling.warmup_iterations) == (2.828e-2, 304)
    # The script for a batch of 1024 states two digits.
    assert f"{scaled_learning_rate(scaling, 1024):.1e}" == "1.4e-02"


@pytest.mark.parametrize(("batch", "iterations"), [(512, 102_400), (2048, 25_600), (16_384, 3200)])
def test_t5s_preset_gives_the_published_runs_if_only_the_batch_changes(batch: int, iterations: int) -> None:
    config = load_config(ROOT / "config/models/t5-small.yaml")
    sizes = config.training.batch.model_copy(update={"global_batch_size": batch})
    training = config.training.model_copy(update={"batch": sizes})
    run, optimizer = trajectory(config.model, training), resolved_optimizer(training)
    assert (run.iterations, warmup_iterations(config.model, training)) == (iterations, 1024)
    assert optimizer.warmup_samples == 1024 * batch
    peak = run.after_iteration(1024)
    reached = learning_rate_at(config.model, training, peak.consumed_samples, peak.consumed_tokens)
    assert reached == optimizer.learning_rate == scaled_learning_rate(T5, batch)


def test_a_warmup_in_iterations_ends_with_an_iteration_of_the_ramp_up() -> None:
    ramp = {"start": 128, "increment": 128, "samples": 1024}
    training = _training(batch={"global_batch_size": 512, "rampup": ramp})
    # Batches of 128 (3), 256 (2) and 384 (1) samples, then full batches, by Megatron's rule.
    sizes = [128, 128, 128, 256, 256, 384, 512, 512, 512, 512]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    position, tokens = 0, 0
    for number, end in enumerate(ends):
        step = next_step(MODEL, training, position, tokens)
        assert step is not None
        assert (step.batch.end, step.global_batch_size) == (end, sizes[number])
        assert step.learning_rate == 2.83e-3 * end / ends[-1]
        position, tokens = end, tokens + step.tokens
    assert resolved_optimizer(training).warmup_samples == ends[-1]
    following = next_step(MODEL, training, position, tokens)
    assert following is not None
    assert following.learning_rate < 2.83e-3


def test_without_a_warmup_in_iterations_the_keys_of_the_optimizer_state_it() -> None:
    scaling = {"base_batch": 128, "base_learning_rate": 1e-3}
    samples = resolved_optimizer(_training(batch_scaling=scaling, optimizer={"warmup_samples": 77}))
    assert (samples.learning_rate, samples.warmup_samples, samples.warmup_tokens) == (2e-3, 77, None)
    training = _training(batch_scaling=scaling, optimizer={"warmup_tokens": 4 * 512 * 64 + 1})
    assert resolved_optimizer(training).warmup_tokens == 4 * 512 * 64 + 1
    assert warmup_iterations(MODEL, training) == 5


def test_a_stated_learning_rate_is_not_changed() -> None:
    training = _training(batch_scaling=None, optimizer={"learning_rate": 0.5, "warmup_samples": 3})
    assert resolved_optimizer(training).model_dump() == training.optimizer.model_dump()


def test_a_written_configuration_is_read_back_unchanged() -> None:
    for training in (_training(), _training(batch_scaling=None, optimizer={"learning_rate": 0.5})):
        for stated in (True, False):
            again = TrainingConfig.model_validate(training.model_dump(mode="json", exclude_unset=stated))
            assert again == training
            assert resolved_optimizer(again) == resolved_optimizer(training)


def test_the_rule_is_described_with_its_limits() -> None:
    assert describe_scaling(LONGER_BERT) == "1.000E-02 x sqrt(batch / 2048), at least 1.000E-02, at most 2.000E-02"
    assert describe_scaling(T5) == "2.830E-03 x sqrt(batch / 512), at most 1.130E-02"
