"""TensorBoard, rendered from the records in BigScience's groups: each curve against steps, samples and tokens.

Each axis has a folder of its own (a run of TensorBoard's: `.`, `vs-samples`, `vs-tokens`). What a killed segment wrote
beyond its last checkpoint is purged when a training goes on, and TensorBoard purges all curves of a folder by one
number. One event for each axis and record holds all values: less bytes and time than one event a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.progress import say
from bloomery.contracts.metrics_record import (
    EnergyRecord,
    EventRecord,
    MetricsRecord,
    Record,
    ValidationRecord,
    perplexity,
)


@dataclass(frozen=True)
class _Axis:
    folder: str
    suffix: str
    field: str
    """Of the record."""


_AXES = (
    _Axis("", "", "iteration"),
    _Axis("vs-samples", " vs samples", "consumed_samples"),
    _Axis("vs-tokens", " vs tokens", "consumed_tokens"),
)


def scalars(record: Record) -> dict[str, float]:
    """Curves of a record: `group/name` -> value. Nothing that was not measured, nothing that is not finite."""
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
                "energy/estimated kWh of the segment": record.estimated_kwh,
                "energy/kg CO2 of the segment": record.co2_kg,
            }
        case EventRecord():
            pass
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}


def _of_step(record: MetricsRecord) -> dict[str, float | None]:
    return {
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


class TensorBoardWriter:
    """The event files of one training."""

    def __init__(self, folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int) -> None:
        """Open the files in `folder`; the counts say where the training stands, and what lies behind is purged.

        Raises:
            ImportError: tensorboard is not installed.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard import SummaryWriter

        self._summary = Summary
        stands = {"iteration": iteration, "consumed_samples": consumed_samples, "consumed_tokens": consumed_tokens}
        self._writers: list[tuple[_Axis, Any]] = [
            (axis, SummaryWriter(str(folder / axis.folder), purge_step=stands[axis.field] + 1)) for axis in _AXES
        ]

    def add(self, record: Record) -> None:
        """Draw a record."""
        values = scalars(record)
        if not values:
            return
        for axis, writer in self._writers:
            named = [self._summary.Value(tag=name + axis.suffix, simple_value=v) for name, v in values.items()]
            writer.file_writer.add_summary(self._summary(value=named), getattr(record, axis.field))

    def flush(self) -> None:
        """Put on disk what is waiting."""
        for _, writer in self._writers:
            writer.flush()

    def close(self) -> None:
        """Flush and end."""
        for _, writer in self._writers:
            writer.close()


def open_tensorboard(
    folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int
) -> TensorBoardWriter | None:
    """The board in `folder`; None, said once, where tensorboard is not installed: metrics.jsonl holds all of it."""
    try:
        return TensorBoardWriter(folder, iteration, consumed_samples, consumed_tokens)
    except ImportError as error:
        say(f"no TensorBoard files ({error}); train/logs/metrics.jsonl holds all numbers")
        return None
