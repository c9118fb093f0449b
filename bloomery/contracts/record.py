"""metrics.jsonl: one record an iteration, the truth about a training; every other log is rendered from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bloomery.base.errors import InputError


class MetricsRecord(BaseModel):
    """One optimizer step. Counts include the step itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    global_batch_size: int
    learning_rate: float
    loss: float
    grad_norm: float
    seconds: float
    tokens_per_second: float
    tflops_hardware: float
    """TFLOP/s of a device, recomputation counted."""
    tflops_model: float
    """TFLOP/s of a device, only what the model needs."""
    samples_per_second: float
    total_iterations: int
    segment: int
    time: str
    """UTC, ISO 8601."""
    mfu: float | None = None
    """Model TFLOP/s over the device's peak, when the peak is configured."""


class ValidationRecord(BaseModel):
    """Losses of the fixed, named validation sets after an iteration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    validation: dict[str, float]
    """Mean loss per set."""
    validation_mean: float
    """Mean over sets."""


Record = MetricsRecord | ValidationRecord


def parse_record(line: str) -> Record:
    """One line of metrics.jsonl. Raises ValueError."""
    value = json.loads(line)
    return (ValidationRecord if "validation" in value else MetricsRecord).model_validate(value)


def read_records(path: Path) -> Iterator[Record]:
    """Records of a metrics file in order; an unfinished last line (the writer was killed) is left out.

    Where a training went back to a checkpoint, the later record of an iteration is the one that counts; use
    `last_of_each` for that.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(path)) from error
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            yield parse_record(line.decode("utf-8"))
        except ValueError as error:
            raise InputError(f"not a metrics record: {error}", where=f"{path}:{number}") from error


def last_of_each(path: Path) -> list[MetricsRecord]:
    """Training records by iteration, each iteration once, as it was last run."""
    found = {record.iteration: record for record in read_records(path) if isinstance(record, MetricsRecord)}
    return [found[iteration] for iteration in sorted(found)]


def validations(path: Path) -> list[ValidationRecord]:
    """Validation records by iteration, each iteration once, as it was last run."""
    found = {record.iteration: record for record in read_records(path) if isinstance(record, ValidationRecord)}
    return [found[iteration] for iteration in sorted(found)]
