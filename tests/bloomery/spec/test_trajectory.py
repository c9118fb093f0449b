"""Compare the trajectory, which joins equal steps into stretches, with a walk step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.model import ModelConfig
from bloomery.config.training import (
    BatchConfig,
    CurriculumConfig,
    OptimizerConfig,
    RampupConfig,
    TrainingConfig,
)
from bloomery.spec.batch import samples_to_read, steps
from bloomery.spec.curriculum import sequence_length
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.trajectory import Trajectory, trajectory

MODEL = ModelConfig(layers=2, hidden_size=16, heads=2, sequence_length=64)
RATE = OptimizerConfig(learning_rate=1e-3)


@st.composite
def trainings(draw: st.DrawFn) -> TrainingConfig:
    start, increment = draw(st.integers(1, 32)), draw(st.integers(1, 8))
    full = start + draw(st.integers(0, 6)) * increment
    samples = draw(st.integers(full, 6000))
    ramp = RampupConfig(start=start, increment=increment, samples=draw(st.integers(1, samples)))
    curriculum = CurriculumConfig(start_length=8, samples=draw(st.integers(1, samples)))
    return TrainingConfig(
        train_samples=samples,
        train_tokens=draw(st.none() | st.integers(1, samples * MODEL.sequence_length)),
        batch=BatchConfig(global_batch_size=full, rampup=draw(st.sampled_from([ramp, None]))),
        curriculum=draw(st.sampled_from([curriculum, None])),
        optimizer=RATE,
    )


def walked(training: TrainingConfig) -> list[tuple[int, int, int, int, int]]:
    """Return (iteration, samples, tokens, batch size, sequence length) after every single step."""
    found, tokens = [], 0
    for step in steps(training.batch, training.train_samples):
        if training.train_tokens is not None and tokens >= training.train_tokens:
            break
        length = sequence_length(training.curriculum, MODEL, step.consumed_samples, step.global_batch_size)
        tokens += step.global_batch_size * length
        samples = step.consumed_samples + step.global_batch_size
        found.append((step.iteration, samples, tokens, step.global_batch_size, length))
    return found


@given(trainings())
def test_every_point_of_the_trajectory_equals_a_walk_step_by_step(training: TrainingConfig) -> None:
    run, expected = trajectory(MODEL, training), walked(training)
    assert run.iterations == len(expected)
    for values in expected:
        point = run.after_iteration(values[0])
        assert values == (
            point.iteration,
            point.consumed_samples,
            point.consumed_tokens,
            point.global_batch_size,
            point.sequence_length,
        )
        assert run.after_samples(point.consumed_samples) == point
        assert run.after_tokens(point.consumed_tokens) == point
        assert run.tokens_at(point.consumed_samples) == point.consumed_tokens
    starts = [each.iteration for each in run.stretches]
    assert starts == sorted(set(starts))


@given(trainings())
def test_the_trajectory_omits_less_than_one_batch_at_the_end(training: TrainingConfig) -> None:
    whole = training.model_copy(update={"train_tokens": None})
    run = trajectory(MODEL, whole)
    assert run.iterations == len(list(steps(whole.batch, whole.train_samples)))
    read = sum(each.steps * each.global_batch_size for each in run.stretches)
    assert read == run.end.consumed_samples == samples_to_read(whole.batch, whole.train_samples)
    assert 0 <= whole.train_samples - read < whole.batch.global_batch_size


@given(trainings(), st.integers(0, 10**6))
def test_after_samples_returns_the_last_finished_step(training: TrainingConfig, number: int) -> None:
    run = trajectory(MODEL, training)
    samples = number % (run.end.consumed_samples + 1)
    point = run.after_samples(samples)
    assert point.consumed_samples <= samples
    if point.iteration < run.iterations:
        assert run.after_iteration(point.iteration + 1).consumed_samples > samples


def test_a_position_outside_the_run_is_refused() -> None:
    run: Trajectory = trajectory(MODEL, TrainingConfig(train_samples=8, batch=_batch(4), optimizer=RATE))
    for look in (run.after_iteration, run.after_samples, run.after_tokens):
        with pytest.raises(ValueError, match=r"outside the run, which covers (iteration|sample|token)s 0 to "):
            look(10**9)
        with pytest.raises(ValueError, match=r"outside the run, which covers (iteration|sample|token)s 0 to "):
            look(-1)


def _batch(size: int) -> BatchConfig:
    return BatchConfig(global_batch_size=size)


def test_a_schedule_by_tokens_follows_the_curriculum() -> None:
    # The first samples are short, so half of the samples contain less than half of the tokens.
    optimizer = OptimizerConfig(learning_rate=1.0, warmup_samples=100, decay_tokens=40_000, schedule="linear")
    curriculum = CurriculumConfig(start_length=8, samples=800)
    training = TrainingConfig(train_samples=1000, batch=_batch(10), optimizer=optimizer, curriculum=curriculum)
    run = trajectory(MODEL, training)
    begin = run.tokens_at(100)
    assert begin < 100 * MODEL.sequence_length / 4
    for point in (run.after_iteration(30), run.after_iteration(60)):
        expected = 1 - (point.consumed_tokens - begin) / (40_000 - begin)
        found = learning_rate_at(MODEL, training, point.consumed_samples, point.consumed_tokens)
        assert found == pytest.approx(max(0.0, expected))
