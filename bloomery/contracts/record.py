"""metrics.jsonl: one record an iteration, the truth about a training; every other log is rendered from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bloomery.base.errors import InputError

_BLOCK_BYTES = 256 << 10
"""Some hundreds of records: enough for a speed, and a millisecond to read of a file of any size."""


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


def read_tail(path: Path, limit: int = _BLOCK_BYTES) -> list[Record]:
    """The last records of a metrics file, oldest first; lines that are cut off or damaged are passed over.

    `limit`: bytes of the file to read.
    """
    records = [_record_or_none(line) for line in _newest_lines(path, limit)]
    return [record for record in reversed(records) if record is not None]


def last_records(path: Path) -> tuple[MetricsRecord | None, ValidationRecord | None]:
    """The newest step and the newest validation of a metrics file; lines that are no records are passed over.

    Reads from the end until both are found: of a file without any validation, all of it, a block at a time.
    """
    step: MetricsRecord | None = None
    validation: ValidationRecord | None = None
    for line in _newest_lines(path):
        # Between two validations of a large training lie thousands of steps, of which one is worth parsing.
        if (validation if b'"validation":' in line else step) is not None:
            continue
        record = _record_or_none(line)
        if isinstance(record, MetricsRecord):
            step = record
        elif record is not None:
            validation = record
        if step is not None and validation is not None:
            break
    return step, validation


def _record_or_none(line: bytes) -> Record | None:
    try:
        return parse_record(line.decode("utf-8"))
    except ValueError:
        return None


def _newest_lines(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """Whole lines of a file, the newest first; none when there is no file.

    What follows the last newline is being written and left out, and so is a line that begins before the last `limit`
    bytes.
    """
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    with handle:
        end = handle.seek(0, os.SEEK_END)
        stop = 0 if limit is None else max(0, end - limit)
        pieces: list[bytes] = []  # of the line that goes on at `end`, the last piece first
        ended = False  # whether a newline follows them
        while end > stop:
            start = max(stop, end - _BLOCK_BYTES)
            handle.seek(start)
            first, *others = handle.read(end - start).split(b"\n")
            if others:
                pieces.append(others.pop())
                if ended:
                    yield b"".join(reversed(pieces))
                ended = True
                yield from reversed(others)
                pieces = []
            pieces.append(first)
            end = start
        if ended and stop == 0:
            yield b"".join(reversed(pieces))


def last_of_each(path: Path) -> list[MetricsRecord]:
    """Training records by iteration, each iteration once, as it was last run."""
    found = {record.iteration: record for record in read_records(path) if isinstance(record, MetricsRecord)}
    return [found[iteration] for iteration in sorted(found)]


def validations(path: Path) -> list[ValidationRecord]:
    """Validation records by iteration, each iteration once, as it was last run."""
    found = {record.iteration: record for record in read_records(path) if isinstance(record, ValidationRecord)}
    return [found[iteration] for iteration in sorted(found)]


def find_step(path: Path, iteration: int) -> MetricsRecord | None:
    """The record of a step as it was last run; None when it was never recorded. Reads from the end, a block at a time.

    Lines that are no records are passed over; a training without a metrics file has none.
    """
    number = str(iteration).encode()
    for line in _newest_lines(path):
        # Parsing is the dear part: of a hundred thousand lines the few that hold the digits are enough.
        record = _record_or_none(line) if number in line else None
        if isinstance(record, MetricsRecord) and record.iteration == iteration:
            return record
    return None
