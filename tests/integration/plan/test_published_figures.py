"""Figures that BigScience published come out of the presets.

Sources: BigScience, train/tr11-176B-ml (README.md, chronicles.md, tr11-176B-ml.slurm), train/tr8-104B-wide (README.md),
the page of the repository tr11-176B-ml-logs.
"""

from __future__ import annotations

import pytest
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from bloomery.spec.batch import micro_batch_size
from bloomery.spec.duration import iteration_seconds, ladder_seconds
from bloomery.spec.hardware import gpus
from planner.answers import answers
from planner.planned_state import speed_at, state_at


def preset(name: str) -> RunConfig:
    return load_config(ROOT / f"config/models/{name}.yaml")


def test_micro_batches_where_their_size_was_doubled(bloom: RunConfig) -> None:
    batch, data = bloom.training.batch, bloom.training.parallel.data
    assert 784 in answers(bloom).batches
    assert [micro_batch_size(batch, size) for size in (192, 768, 784, 2048)] == [1, 1, 2, 2]
    assert 784 // (micro_batch_size(batch, 784) * data) == 49


def test_the_ramp_up_took_seven_days(bloom: RunConfig) -> None:
    # "7 days after the launch the training finished the batch size ramp up stage"
    ladder = ladder_seconds(bloom)
    assert len(ladder) == 117
    assert sum(steps * seconds for steps, seconds in ladder[:-1]) / 86_400 == pytest.approx(7, abs=0.5)


def test_the_estimate_without_a_stated_speed_is_calibrated_with_bloom(bloom: RunConfig) -> None:
    unstated = bloom.model_copy(update={"plan": bloom.plan.model_copy(update={"tflops_hardware": None})})
    assert iteration_seconds(unstated, 2048) == pytest.approx(105.22, rel=0.005)
    assert iteration_seconds(bloom, 2048) == pytest.approx(105.22, abs=0.01)


def test_steps_of_the_curriculum() -> None:
    curriculum = preset("tr8-104b-curriculum")
    assert curriculum.training.train_tokens is not None
    assert curriculum.training.curriculum is not None
    # train/tr8-104B-wide/README.md of BigScience: "300B/2K/2K = 71525 steps. So total_curriculum_step ~= 36_000"
    steps = curriculum.training.train_tokens / 2048 / curriculum.model.sequence_length / 2
    assert round(steps, -3) == 36_000
    assert curriculum.training.curriculum.samples == 36_000 * 2048
    assert state_at(curriculum, iteration=1).sequence_length == 64
    assert state_at(curriculum, iteration=35_999).sequence_length == 2040
    assert state_at(curriculum, iteration=36_000).sequence_length == 2048


def test_warm_up_samples_follow_the_ramp_up() -> None:
    tr1 = preset("tr1-13b").training
    assert tr1.batch.rampup is not None
    step = tr1.batch.rampup.increment
    # 160 iterations at each of 12 sizes, then 80 at the next (train/tr1-13B-base/README.md).
    assert tr1.optimizer.warmup_samples == 160 * step * sum(range(1, 13)) + 80 * step * 13 == 216_320


def test_hardware_and_model_operations_are_told_apart(bloom: RunConfig) -> None:
    speed = speed_at(bloom, state_at(bloom, iteration=12_695), 105.22)
    assert speed.tflops_hardware == pytest.approx(149.02, abs=0.01)
    assert speed.tflops_model == pytest.approx(111.77, abs=0.01)
    assert speed.hfu == pytest.approx(0.478, abs=0.001)
    assert speed.mfu == pytest.approx(0.358, abs=0.001)
    assert gpus()["a100-80gb"].peak_tflops == 312
