"""Test that training omits exactly the samples of skipped ranges, for any batch sizes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.model import ModelConfig
from bloomery.config.training import BatchConfig, CurriculumConfig, OptimizerConfig, RampupConfig, TrainingConfig
from bloomery.config.training_loop import SkipRange
from bloomery.spec.batch import global_batch_size, samples_to_read
from bloomery.spec.curriculum import sequence_length
from bloomery.spec.next_step import next_step
from bloomery.spec.skip_arithmetic import batch_before, next_batch, skipped_before
from bloomery.spec.trajectory import trajectory, trajectory_through

MODEL = ModelConfig(layers=2, hidden_size=16, heads=2, sequence_length=64)

ranges = st.builds(
    lambda start, length: SkipRange(from_sample=start, to_sample=start + length),
    st.integers(0, 400),
    st.integers(1, 60),
)


@st.composite
def trainings(draw: st.DrawFn) -> TrainingConfig:
    samples = draw(st.integers(20, 500))
    ramp = RampupConfig(start=2, increment=3, samples=draw(st.integers(1, samples)))
    curriculum = CurriculumConfig(start_length=8, samples=draw(st.integers(1, samples)))
    return TrainingConfig(
        train_samples=samples,
        train_tokens=draw(st.none() | st.integers(1, samples * MODEL.sequence_length)),
        batch=BatchConfig(global_batch_size=14, rampup=draw(st.sampled_from([ramp, None]))),
        curriculum=draw(st.sampled_from([curriculum, None])),
        optimizer=OptimizerConfig(learning_rate=1e-3),
        skip=draw(st.lists(ranges, max_size=5)),
    )


@given(st.lists(ranges, max_size=6), st.integers(0, 500), st.integers(1, 40))
def test_a_batch_holds_the_next_samples_outside_all_skipped_ranges(
    skip: list[SkipRange], consumed: int, size: int
) -> None:
    held = {sample for each in skip for sample in range(each.from_sample, each.to_sample)}
    expected = [sample for sample in range(consumed, consumed + size + len(held)) if sample not in held][:size]
    batch = next_batch(skip, consumed, size)
    assert batch.samples == expected
    assert batch.end == expected[-1] + 1
    assert all(before.stop < after.start for before, after in pairwise(batch.spans))
    assert all(batch.spans)
    assert skipped_before(skip, consumed) == len([sample for sample in held if sample < consumed])
    assert batch_before(skip, batch.end, size) == batch
    assert batch.skipped_samples == batch.end - expected[0] - size


@given(trainings())
def test_the_trajectory_with_skipped_ranges_equals_a_walk_step_by_step(training: TrainingConfig) -> None:
    run, last = trajectory(MODEL, training), samples_to_read(training.batch, training.train_samples)
    iteration = consumed = tokens = 0
    read: list[int] = []
    while training.train_tokens is None or tokens < training.train_tokens:
        size = global_batch_size(training.batch, consumed)
        batch = next_batch(training.skip, consumed, size)
        if batch.end > last:
            break
        length = sequence_length(training.curriculum, MODEL, consumed, size)
        step = next_step(MODEL, training, consumed, tokens)
        assert step is not None
        assert (step.batch, step.global_batch_size, step.sequence_length) == (batch, size, length)
        iteration, consumed, tokens = iteration + 1, batch.end, tokens + size * length
        read += batch.samples
        point = run.after_iteration(iteration)
        assert (point.consumed_samples, point.consumed_tokens) == (consumed, tokens)
        assert (point.global_batch_size, point.sequence_length) == (size, length)
        assert point.skipped_samples == skipped_before(training.skip, consumed) == consumed - len(read)
        assert run.after_samples(consumed) == run.after_tokens(tokens) == point
        assert run.tokens_at(consumed) == tokens
        assert run.samples_at(tokens) == consumed
        rest = trajectory(MODEL, training, point)
        assert (rest.end.iteration, rest.end.consumed_tokens) == (run.end.iteration, run.end.consumed_tokens)
        assert rest.after_iteration(iteration).skipped_samples == point.skipped_samples
    assert run.iterations == iteration
    assert next_step(MODEL, training, consumed, tokens) is None
    held = {sample for each in training.skip for sample in range(each.from_sample, each.to_sample)}
    assert read == [sample for sample in range(consumed) if sample not in held]


def test_a_trajectory_starts_from_the_position_of_an_earlier_configuration() -> None:
    training = TrainingConfig(
        train_samples=100, batch=BatchConfig(global_batch_size=10), optimizer=OptimizerConfig(learning_rate=1e-3)
    )
    whole = trajectory(MODEL, training)
    assert trajectory_through(MODEL, training, whole.after_iteration(3)) is whole
    # Three iterations of 20 samples ran before the batch size changed, so four iterations of 10 samples remain.
    there = trajectory(MODEL, training.model_copy(update={"batch": BatchConfig(global_batch_size=20)}))
    run = trajectory_through(MODEL, training, there.after_iteration(3))
    assert (run.start.iteration, run.iterations, run.end.consumed_samples) == (3, 7, 100)


def test_a_skipped_range_at_the_start_is_omitted() -> None:
    skip = [SkipRange(from_sample=0, to_sample=10), SkipRange(from_sample=8, to_sample=12)]
    assert next_batch(skip, 0, 4).spans == (range(12, 16),)
    assert next_batch(skip, 0, 4).end == 16


def test_a_skipped_range_directly_after_a_batch_belongs_to_the_next_batch() -> None:
    skip = [SkipRange(from_sample=4, to_sample=6)]
    assert next_batch(skip, 0, 4).end == 4
    assert next_batch(skip, 4, 4).samples == [6, 7, 8, 9]
    assert (skipped_before(skip, 4), skipped_before(skip, 5), skipped_before(skip, 10)) == (0, 1, 2)
