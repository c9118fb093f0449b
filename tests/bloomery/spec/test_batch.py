"""Test that the batch size is a function of consumed samples for any run, not only for the published one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.training import BatchConfig, RampupConfig
from bloomery.spec.batch import (
    global_batch_size,
    iterations_of_samples,
    ladder_rungs,
    samples_of_iterations,
    samples_to_read,
    steps,
)


@st.composite
def batches(draw: st.DrawFn) -> BatchConfig:
    start, increment = draw(st.integers(1, 64)), draw(st.integers(1, 16))
    rungs = draw(st.integers(1, 12))
    ramp = RampupConfig(start=start, increment=increment, samples=draw(st.integers(1, 4000)))
    return BatchConfig(global_batch_size=start + rungs * increment, rampup=draw(st.sampled_from([ramp, None])))


@given(batches(), st.integers(1, 20_000))
def test_samples_to_read_equals_the_sum_over_all_iterations(batch: BatchConfig, samples: int) -> None:
    walked = list(steps(batch, samples))
    read = walked[-1].consumed_samples + walked[-1].global_batch_size if walked else 0
    assert samples_to_read(batch, samples) == read <= samples < read + global_batch_size(batch, read)
    sizes = [step.global_batch_size for step in walked]
    assert sizes == sorted(sizes)
    assert set(sizes) <= set(ladder_rungs(batch))


@given(batches(), st.integers(1, 5_000), st.integers(0, 5_000))
def test_the_batch_is_a_function_of_consumed_samples_alone(batch: BatchConfig, samples: int, consumed: int) -> None:
    # A resumed run therefore has the same batch sizes as an uninterrupted one.
    for before, after in itertools.pairwise(steps(batch, samples)):
        assert after.consumed_samples == before.consumed_samples + before.global_batch_size
    assert global_batch_size(batch, consumed) in ladder_rungs(batch)


@given(batches(), st.integers(1, 400))
def test_iterations_and_samples_are_converted_with_the_batches_of_the_ramp_up(
    batch: BatchConfig, iterations: int
) -> None:
    walked = list(itertools.islice(steps(batch, 10**9), iterations))
    samples = walked[-1].consumed_samples + walked[-1].global_batch_size
    assert samples_of_iterations(batch, iterations) == samples
    assert iterations_of_samples(batch, samples) == iterations
    assert iterations_of_samples(batch, samples + 1) == iterations + 1
    assert samples_of_iterations(batch, 0) == iterations_of_samples(batch, 0) == 0
