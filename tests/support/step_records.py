"""Make records of training steps."""

from __future__ import annotations

from typing import Any

from bloomery.contracts.metrics_record import MetricsRecord

SHARED = {"segment": 1, "time": "2026-01-01T00:00:00Z"}
LENGTH = 32


def counts(iteration: int) -> dict[str, int]:
    """Return the counts after `iteration` batches of 8 samples."""
    return {
        "iteration": iteration,
        "consumed_samples": 8 * iteration,
        "consumed_tokens": 8 * LENGTH * iteration,
    }


def step(iteration: int, **changes: Any) -> MetricsRecord:
    values = {
        "global_batch_size": 8,
        "learning_rate": 1e-3,
        "loss": 5.0 - iteration / 10,
        "grad_norm": 1.0,
        "seconds": 0.1,
        "tokens_per_second": 2560.0,
        "tflops_hardware": 0.4,
        "tflops_model": 0.3,
        "samples_per_second": 80.0,
        "total_iterations": 9,
        "fastest_rank": 0,
        "fastest_seconds": 0.08,
        "slowest_rank": 1,
        "slowest_seconds": 0.09,
    }
    return MetricsRecord.model_validate(counts(iteration) | SHARED | values | changes)
