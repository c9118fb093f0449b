"""Name the curves of a training in TensorBoard. Their groups are those of BigScience, and each has three axes.

The training writes these curves, and `bloomery.contracts.log_size` computes how many bytes they take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bloomery.contracts.metrics_record import (
    EnergyRecord,
    EventRecord,
    MetricsRecord,
    Record,
    TrustRatios,
    ValidationRecord,
    perplexity,
)


@dataclass(frozen=True)
class Axis:
    """Horizontal axis of the curves."""

    folder: str
    suffix: str
    """Suffix of the names of the curves (TensorBoard's tags)."""
    field: str
    """Name of the record's field that holds the position on this axis."""


AXES = (
    Axis("", "", "iteration"),
    Axis("vs-samples", " vs samples", "consumed_samples"),
    Axis("vs-tokens", " vs tokens", "consumed_tokens"),
)


def scalars(record: Record) -> dict[str, float]:
    """Return the values of a record by tag, `group/name`. Missing and non-finite values are left out."""
    values: dict[str, float | None] = {}
    match record:
        case MetricsRecord():
            values = _of_step(record)
        case ValidationRecord():
            group = "lm-loss-validation"
            for name, loss in record.validation.items():
                values[f"{group}/{name}/lm loss"] = loss
                values[f"{group}/{name}/perplexity"] = perplexity(loss)
            values[f"{group}/mean/lm loss"] = record.validation_mean
            values[f"{group}/mean/perplexity"] = perplexity(record.validation_mean)
        case EnergyRecord():
            values = {
                "energy/kWh of the segment": record.energy_kwh,
                "energy/estimated part of the kWh of the segment": record.estimated_kwh,
                "energy/kg CO2 of the segment": record.co2_kg,
            }
        case EventRecord():
            pass
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}


def _of_trust_ratios(ratios: TrustRatios | None) -> dict[str, float | None]:
    """Return the least, the median and the greatest trust ratio of each layer by tag."""
    names = "least", "median", "greatest"
    return {
        f"trust-ratio/{layer} {name}": value
        for layer, each in (ratios or {}).items()
        for name, value in zip(names, each, strict=True)
    }


def _of_step(record: MetricsRecord) -> dict[str, float | None]:
    """Return the values of an iteration's record by tag."""
    return {
        **_of_trust_ratios(record.trust_ratios),
        "lm-loss-training/lm loss": record.loss,
        "learning-rate/learning-rate": record.learning_rate,
        "batch-size/batch-size": record.global_batch_size,
        "sequence-length/sequence-length": record.sequence_length,
        "grad-norm/grad-norm": record.grad_norm,
        "loss-scale/loss-scale": record.loss_scale,
        "skipped/updates": record.skipped_updates,
        "skipped/not finite": record.non_finite,
        "skipped/samples": record.skipped_samples,
        "iteration-time/iteration-time": record.seconds,
        "iteration-time/fastest rank": record.fastest_seconds,
        "iteration-time/slowest rank": record.slowest_seconds,
        "throughput/tokens per second": record.tokens_per_second,
        "throughput/samples per second": record.samples_per_second,
        "throughput/hardware TFLOPs": record.tflops_hardware,
        "throughput/model TFLOPs": record.tflops_model,
        "throughput/MFU": record.mfu,
    }
