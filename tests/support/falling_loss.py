"""Make records of a training whose loss falls."""

from __future__ import annotations

import math

from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord


def records(count: int, loss: float | None = None) -> list[MetricsRecord]:
    return [
        MetricsRecord(
            iteration=i,
            consumed_samples=8 * i,
            consumed_tokens=64 * i,
            global_batch_size=8,
            learning_rate=1e-3,
            loss=8 / math.sqrt(i) if loss is None else loss,
            grad_norm=1.0,
            seconds=0.1,
            tokens_per_second=640.0,
            tflops_hardware=0.1,
            tflops_model=0.1,
            samples_per_second=80.0,
            total_iterations=count,
            segment=1,
            time="2026-01-01T00:00:00Z",
        )
        for i in range(1, count + 1)
    ]


def validations(count: int) -> list[ValidationRecord]:
    return [
        ValidationRecord(
            iteration=i,
            consumed_samples=8 * i,
            consumed_tokens=64 * i,
            segment=1,
            time="2026-01-01T00:00:00Z",
            validation={"fr": 5.0 / i, "zh<s>": 6.0 / i},
            validation_mean=5.5 / i,
        )
        for i in range(1, count + 1)
    ]
