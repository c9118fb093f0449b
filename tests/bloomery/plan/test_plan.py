"""Schedules and layouts hold for any run, not only for the published one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.model import ModelConfig
from bloomery.config.training import BatchConfig, OptimizerConfig, RampupConfig, TrainingConfig
from bloomery.spec.batch import global_batch_size, ladder_rungs, samples_to_read, steps
from bloomery.spec.deepspeed_json import deepspeed_json
from bloomery.spec.learning_rate import learning_rate
from bloomery.spec.parameters import declare, padded_vocabulary, parameter_count
from bloomery.spec.partition import stage_bounds


@st.composite
def batches(draw: st.DrawFn) -> BatchConfig:
    start, increment = draw(st.integers(1, 64)), draw(st.integers(1, 16))
    rungs = draw(st.integers(1, 12))
    ramp = RampupConfig(start=start, increment=increment, samples=draw(st.integers(1, 4000)))
    return BatchConfig(global_batch_size=start + rungs * increment, rampup=draw(st.sampled_from([ramp, None])))


@given(batches(), st.integers(1, 20_000))
def test_counting_iterations_is_walking_them(batch: BatchConfig, samples: int) -> None:
    walked = list(steps(batch, samples))
    read = walked[-1].consumed_samples + walked[-1].global_batch_size if walked else 0
    assert samples_to_read(batch, samples) == read <= samples < read + global_batch_size(batch, read)
    sizes = [step.global_batch_size for step in walked]
    assert sizes == sorted(sizes)
    assert set(sizes) <= set(ladder_rungs(batch))


@given(batches(), st.integers(1, 5_000), st.integers(0, 5_000))
def test_the_batch_is_a_function_of_consumed_samples_alone(batch: BatchConfig, samples: int, consumed: int) -> None:
    # What a resumed run does after any number of samples is what the undisturbed run would have done.
    for before, after in itertools.pairwise(steps(batch, samples)):
        assert after.consumed_samples == before.consumed_samples + before.global_batch_size
    assert global_batch_size(batch, consumed) in ladder_rungs(batch)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_learning_rate_warms_up_decays_and_rests(schedule: str) -> None:
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


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4000), st.sampled_from(["parameters", "uniform"]))
def test_every_stage_gets_a_block_and_no_block_is_lost(layers: int, stages: int, rows: int, method: str) -> None:
    model = ModelConfig(layers=max(layers, stages), hidden_size=16, heads=2, sequence_length=8)
    bounds = stage_bounds(model, rows * 128, stages, method)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, model.layers + 4, stages + 1)
    cuts = [0, *(bound - 2 for bound in bounds[1:-1]), model.layers]
    assert all(second > first for first, second in itertools.pairwise(cuts))


def test_the_partition_by_parameters_is_the_best_one() -> None:
    model = ModelConfig(layers=9, hidden_size=32, heads=4, sequence_length=8)
    rows, stages = 1024, 4
    block = parameter_count(model, 0) // model.layers
    embedding = rows * model.hidden_size

    def greatest(cuts: tuple[int, ...]) -> int:
        counts = [second - first for first, second in itertools.pairwise((0, *cuts, model.layers))]
        return max(count * block + (embedding if i in (0, stages - 1) else 0) for i, count in enumerate(counts))

    best = min(greatest(cuts) for cuts in itertools.combinations(range(1, model.layers), stages - 1))
    bounds = stage_bounds(model, rows, stages, "parameters")
    assert greatest(tuple(bound - 2 for bound in bounds[1:-1])) <= best + block // 50


def test_parameters_are_declared_once_and_split_without_loss() -> None:
    model = ModelConfig(layers=3, hidden_size=32, heads=4, sequence_length=8)
    rows = padded_vocabulary(1000, model, 2)
    assert rows == 1024
    parameters = declare(model, rows)
    assert len({parameter.name for parameter in parameters}) == len(parameters)
    assert sum(parameter.count for parameter in parameters) == parameter_count(model, rows)
    for parameter in parameters:
        shards = [parameter.shard_shape(2) for _ in range(2)]
        whole = sum(a * (b[0] if b else 1) for a, *b in shards)
        assert whole == parameter.count * (2 if parameter.placement.dimension is None else 1)
        assert parameter.decays == (len(parameter.shape) == 2)


def test_deepspeeds_json_promises_fp32_accumulation() -> None:
    training = TrainingConfig(
        train_samples=100,
        batch=BatchConfig(global_batch_size=8, micro_batch_size=2),
        optimizer=OptimizerConfig(learning_rate=1e-3),
    )
    value = deepspeed_json(training)
    assert value["bf16"] == {"enabled": True}
    assert value["zero_optimization"]["stage"] == 1
    assert value["data_types"]["grad_accum_dtype"] == "fp32"
    assert (value["train_batch_size"], value["train_micro_batch_size_per_gpu"]) == (8, 2)
