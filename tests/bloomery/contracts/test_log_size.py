"""Test the planned bytes of logs against files that the writer of the logs writes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tiny_run import configuration

from bloomery.config.run import RunConfig
from bloomery.contracts.log_size import log_size
from bloomery.contracts.metrics_record import MetricsRecord, TrustRatios, ValidationRecord
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.parameters import declare
from bloomery.spec.trajectory import trajectory
from training.loop.metrics_writer import MetricsWriter
from training.optim.layer_ratios import layer_ratios

TRAINING: dict[str, Any] = {
    "train_samples": 2400,
    "batch": {"global_batch_size": 8},
    "optimizer": {"learning_rate": 1e-3, "min_learning_rate": 1e-4},
    "validation": {"every_iterations": 20},
}


def write_logs(config: RunConfig, sets: list[str], folder: Path) -> None:
    """Write the records of a whole training, with measured values drawn at random."""
    draw = random.Random(1)
    run = trajectory(config.model, config.training)
    writer = MetricsWriter(folder, iteration=0, consumed_samples=0, consumed_tokens=0)
    scaled = config.training.precision == "fp16"
    for iteration in range(1, run.iterations + 1):
        at = run.after_iteration(iteration)
        stamp: dict[str, Any] = {
            "iteration": iteration,
            "consumed_samples": at.consumed_samples,
            "consumed_tokens": at.consumed_tokens,
            "segment": 1,
            "time": "2026-11-23T03:22:31Z",
        }
        measured = {"loss": 4.0, "grad_norm": 1.0, "seconds": 0.3, "tokens_per_second": 2e4, "tflops_hardware": 0.1}
        measured |= {"tflops_model": 0.1, "samples_per_second": 150.0, "fastest_seconds": 0.1, "slowest_seconds": 0.1}
        if config.training.peak_tflops:
            measured["mfu"] = 0.6
        writer.step(
            MetricsRecord(
                **stamp,
                **{name: value * draw.uniform(0.5, 1.5) for name, value in measured.items()},
                global_batch_size=at.global_batch_size,
                learning_rate=learning_rate_at(config.model, config.training, at.consumed_samples, at.consumed_tokens),
                total_iterations=run.iterations,
                sequence_length=at.sequence_length if config.training.curriculum else None,
                loss_scale=65536.0 if scaled else None,
                overflowed=False if scaled else None,
                fastest_rank=draw.randrange(4),
                slowest_rank=draw.randrange(4),
                memory_bytes=draw.randrange(10**8, 10**9),
                trust_ratios=_ratios(draw, config),
            )
        )
        if iteration % config.training.validation.every_iterations == 0 or iteration == run.iterations:
            losses = {name: draw.uniform(3, 6) for name in sets}
            mean = sum(losses.values()) / len(losses)
            writer.validation(ValidationRecord(**stamp, validation=losses, validation_mean=mean))
    writer.close()


def _ratios(draw: random.Random, config: RunConfig) -> TrustRatios | None:
    if config.training.optimizer.kind != "lamb":
        return None
    parameters = declare(config.model, 512)
    return layer_ratios(parameters, [draw.uniform(0.01, 1.0) for _ in parameters])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "sets"),
    [
        ({}, ["en"]),
        ({"precision": "fp16", "peak_tflops": 312}, ["en", "fr", "zhs"]),
        ({"curriculum": {"start_length": 16, "samples": 800}}, [f"l{number}" for number in range(29)]),
        ({"optimizer": {"kind": "lamb", "learning_rate": 1e-3, "min_learning_rate": 1e-4}}, ["en"]),
    ],
    ids=["one set", "fp16 with MFU", "curriculum, 29 sets", "trust ratios"],
)
def test_real_logs_have_the_planned_size(tmp_path: Path, changes: dict[str, Any], sets: list[str]) -> None:
    config = configuration({"training": TRAINING | changes})
    write_logs(config, sets, tmp_path)
    planned = log_size(config, sets)
    real = {
        "metrics": (tmp_path / "metrics.jsonl").stat().st_size,
        "tensorboard": sum(path.stat().st_size for path in tmp_path.glob("tensorboard/**/*.tfevents*")),
        "records in main_log": (tmp_path / "main_log.txt").stat().st_size,
    }
    assert planned.metrics == pytest.approx(real["metrics"], rel=0.05)
    assert planned.tensorboard == pytest.approx(real["tensorboard"], rel=0.05)
    assert planned.main_log == pytest.approx(real["records in main_log"], rel=0.05)


def test_iterations_add_equal_bytes_except_for_the_digits_of_their_numbers() -> None:
    sizes = []
    for samples in (8 * 1_000, 8 * 10_000, 8 * 100_000):
        config = configuration({"training": TRAINING | {"train_samples": samples}})
        sizes.append(log_size(config, ["en"]).total / (samples // 8))
    assert sizes[0] < sizes[1] < sizes[2] < 1.1 * sizes[0]


def test_each_segment_has_its_own_files() -> None:
    whole, parts = (
        log_size(configuration({"training": TRAINING | {"segment": {"iterations": limit}}}), ["en"])
        for limit in (None, 100)
    )
    assert parts.segments == 3 * whole.segments
    assert parts.ranks > whole.ranks
    assert parts.metrics == whole.metrics
