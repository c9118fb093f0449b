"""Test that the plan of config/models/tr11-176b.yaml has BLOOM-176B's published figures and log lines.

The formulas and lines are from BigScience's train/tr11-176B-ml (tr11-176B-ml.slurm, chronicles.md) and the repository
of its logs.
"""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.contracts.logline import render
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.spec.batch import global_batch_size, ladder_rungs, samples_to_read, steps
from bloomery.spec.flops import iteration_flops, tflops_per_device
from bloomery.spec.learning_rate import learning_rate
from bloomery.spec.parameters import declare, padded_vocabulary, parameter_count
from bloomery.spec.trajectory import trajectory

WORLD, ROWS = 384, 250_880


def consumed_after(config: RunConfig, iteration: int) -> int:
    for step in steps(config.training.batch, config.training.train_samples):
        if step.iteration == iteration:
            return step.consumed_samples + step.global_batch_size
    raise AssertionError


def test_the_number_of_iterations_is_the_published_one(bloom: RunConfig) -> None:
    training = bloom.training
    assert trajectory(bloom.model, training).iterations == 115_311
    assert sum(1 for _ in steps(training.batch, training.train_samples)) == 115_311
    assert samples_to_read(training.batch, training.train_samples) == consumed_after(bloom, 115_311)


def test_the_ramp_up_ends_at_the_published_iteration(bloom: RunConfig) -> None:
    batch = bloom.training.batch
    assert consumed_after(bloom, 12_658) == 9_765_808
    assert global_batch_size(batch, consumed_after(bloom, 12_658)) == 2048
    assert global_batch_size(batch, 0) == 192
    rungs = ladder_rungs(batch)
    assert (rungs[:2], rungs[-2:], len(rungs)) == ([192, 208], [2032, 2048], 117)


@pytest.mark.parametrize(
    ("iteration", "samples", "tokens", "rate"),
    [
        (12_695, 9_841_584, 20_155_564_032, "5.969E-05"),
        (31_214, 47_768_496, 97_829_879_808, "5.279E-05"),
    ],
)
def test_samples_tokens_and_learning_rate_equal_those_of_a_published_iteration(
    bloom: RunConfig, iteration: int, samples: int, tokens: int, rate: str
) -> None:
    assert consumed_after(bloom, iteration) == samples
    assert samples * bloom.model.sequence_length == tokens
    optimizer, total = bloom.training.optimizer, bloom.training.train_samples
    assert f"{learning_rate(optimizer, samples, total):.3E}" == rate


@pytest.mark.parametrize(("seconds", "published"), [(105.22, 149.02), (106.46, 147.29)])
def test_the_published_tflops_include_the_recomputation(bloom: RunConfig, seconds: float, published: float) -> None:
    hardware = iteration_flops(bloom.model, ROWS, 2048, recomputed=True)
    model = iteration_flops(bloom.model, ROWS, 2048, recomputed=False)
    # The log rounds the time to two decimals, so the TFLOPs differ by up to 0.01.
    assert tflops_per_device(hardware, seconds, WORLD) == pytest.approx(published, abs=0.01)
    assert tflops_per_device(model, seconds, WORLD) == pytest.approx(0.75 * published, abs=0.01)


def test_the_formula_for_parameters_equals_the_sum_of_all_parameters(bloom: RunConfig) -> None:
    assert padded_vocabulary(250_680, bloom.model, 4) == ROWS
    assert parameter_count(bloom.model, ROWS) == 176_247_271_424
    assert sum(parameter.count for parameter in declare(bloom.model, ROWS)) == 176_247_271_424
    by_rule = bloom.model.model_copy(update={"init_std": None})
    assert by_rule.standard_deviation == pytest.approx(0.00482198, abs=5e-9)
    assert bloom.model.standard_deviation == 0.0048  # the published script sets this value


def test_a_log_line_looks_like_the_published_one(bloom: RunConfig) -> None:
    record = MetricsRecord(
        iteration=12_695,
        consumed_samples=9_841_584,
        consumed_tokens=20_155_564_032,
        global_batch_size=2048,
        learning_rate=learning_rate(bloom.training.optimizer, 9_841_584, 220_000_000),
        loss=2.33281,
        grad_norm=0.1549,
        seconds=105.22,
        tokens_per_second=2048 * 2048 / 105.22,
        tflops_hardware=149.02,
        tflops_model=111.77,
        samples_per_second=19.464,
        total_iterations=115_311,
        segment=1,
        time="2022-03-24T00:00:00Z",
    )
    assert render(record) == (
        " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  20155564032"
        " | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  2048"
        " | lm loss: 2.332810E+00 | grad norm: 0.155 | number of skipped iterations:   0"
        " | number of nan iterations:   0 | samples per second: 19.464 | TFLOPs: 149.02 |"
    )
