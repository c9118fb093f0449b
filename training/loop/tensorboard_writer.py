"""Write TensorBoard files from the records, with the same groups of curves as BigScience. Each curve is drawn over
steps, samples and tokens.

Each axis has its own folder, which TensorBoard shows as a run (`.`, `vs-samples`, `vs-tokens`). A resumed training
purges records beyond the resumed position, which a killed segment wrote after its last checkpoint. The axes need
separate folders, because TensorBoard purges all curves of a folder from the same step number. Each record becomes one
event per axis with all values, which needs fewer bytes and less time than one event per value.
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
    """Horizontal axis of the curves."""

    folder: str
    suffix: str
    """Suffix of the names of the curves (TensorBoard's tags)."""
    field: str
    """Name of the record's field that holds the position on this axis."""


_AXES = (
    _Axis("", "", "iteration"),
    _Axis("vs-samples", " vs samples", "consumed_samples"),
    _Axis("vs-tokens", " vs tokens", "consumed_tokens"),
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


def _of_step(record: MetricsRecord) -> dict[str, float | None]:
    """Return the values of an iteration's record by tag."""
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
    """Writer of a training's event files."""

    def __init__(self, folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int) -> None:
        """Open the files in `folder`, and purge records beyond the resumed position.

        Args:
            folder: folder of the event files.
            iteration: iteration after which the training resumes.
            consumed_samples: consumed samples at that iteration.
            consumed_tokens: consumed tokens at that iteration.

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
        """Add the values of a record to the curves."""
        values = scalars(record)
        if not values:
            return
        for axis, writer in self._writers:
            named = [self._summary.Value(tag=name + axis.suffix, simple_value=v) for name, v in values.items()]
            writer.file_writer.add_summary(self._summary(value=named), getattr(record, axis.field))

    def flush(self) -> None:
        """Write pending events to disk."""
        for _, writer in self._writers:
            writer.flush()

    def close(self) -> None:
        """Write pending events to disk and close the files."""
        for _, writer in self._writers:
            writer.close()


def open_tensorboard(
    folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int
) -> TensorBoardWriter | None:
    """Open TensorBoard files in `folder`. If tensorboard is not installed, print a message and return None."""
    try:
        return TensorBoardWriter(folder, iteration, consumed_samples, consumed_tokens)
    except ImportError as error:
        say(f"no TensorBoard files are written ({error}); train/logs/metrics.jsonl contains all values")
        return None
