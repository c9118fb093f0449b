"""Define metrics.jsonl, which has one record for each iteration, validation, event and energy measurement.

It is the authoritative record of a training, and all other logs are rendered from it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from bloomery.base.errors import InputError
from bloomery.base.unreadable import why_unreadable
from bloomery.config.explain_value import wrong_values

_BLOCK_BYTES = 256 << 10
"""Block size for reading, in bytes. A block is read in 1 ms. The few hundred records of a block are enough to compute
the training's speed."""


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Finite = Annotated[float | None, BeforeValidator(_finite)]
"""Measured value; None if it is not finite, because JSON has no such numbers."""


class MetricsRecord(BaseModel):
    """One optimizer step. Counters include the step itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    global_batch_size: int
    learning_rate: float
    loss: Finite
    """Mean loss over the tokens of the global batch; None if it is not finite."""
    grad_norm: Finite
    """Norm of the whole gradient before clipping; None if it is not finite."""
    seconds: float
    tokens_per_second: float
    tflops_hardware: float
    """TFLOP/s of a device, including recomputation."""
    tflops_model: float
    """TFLOP/s of a device without recomputation."""
    samples_per_second: float
    total_iterations: int
    segment: int
    time: str
    """UTC time in ISO 8601."""
    mfu: float | None = None
    """Model TFLOP/s divided by the device's peak; None if no peak is configured."""
    sequence_length: int | None = None
    """Tokens of a sample; None unless a curriculum is configured."""
    skipped_samples: int = 0
    """Number of consumed samples that the model was not trained on (`training.skip`, roll-backs)."""
    update_skipped: bool = False
    """Whether the weights were not updated, because a guard skipped the update or fp16 overflowed."""
    skipped_updates: int = 0
    """Number of iterations without an update in the whole training so far, including this one."""
    non_finite: int = 0
    """Number of iterations so far whose loss or gradient was not finite (`is_finite` is false)."""
    loss_scale: float | None = None
    """Loss scale with which the gradient was computed (fp16)."""
    overflowed: bool | None = None
    """Whether the scaled fp16 gradient overflowed while the loss scale could still be reduced.

    Such an overflow is part of the search for the loss scale.
    """
    fastest_rank: int | None = None
    fastest_seconds: float | None = None
    """Seconds that the fastest rank spent computing in the forward and backward passes, without waiting for other
    ranks."""
    slowest_rank: int | None = None
    slowest_seconds: float | None = None
    memory_bytes: int | None = None
    """Most memory that any rank has held at once: GPU memory on a GPU, main memory on a CPU."""

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient were finite. An fp16 overflow during the loss-scale search does not count as
        non-finite."""
        return self.loss is not None and (self.grad_norm is not None or bool(self.overflowed))


class Stamp(TypedDict):
    """Position and time of a record: the fields that every kind of record has."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    """UTC time in ISO 8601."""


class _Stamped(BaseModel):
    """Position and time of a record that is not a step: the fields of `Stamp`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    """UTC time in ISO 8601."""


class ValidationRecord(_Stamped):
    """Losses of the fixed, named validation sets after an iteration."""

    validation: dict[str, Finite]
    """Mean loss of each set."""
    validation_mean: Finite
    """Mean of the losses of all sets."""


class EventRecord(_Stamped):
    """Event that a guard detected, and the guard's action."""

    event: Literal["spike", "non_finite", "drift", "resumed"]
    action: Literal["log", "skip", "roll_back", "stop"]
    message: str
    from_sample: int | None = None
    """First sample that the event concerns; None if it concerns no particular samples."""
    to_sample: int | None = None
    """First sample after those that the event concerns."""


class EnergyRecord(_Stamped):
    """Energy of a segment so far, summed over all its nodes."""

    energy_kwh: float
    co2_kg: float
    nodes: int
    """Number of nodes that were measured."""
    estimated_kwh: float | None = None
    """Part of `energy_kwh` that was estimated, because no sensor measured it.

    This concerns memory, and processors whose counters cannot be read. The value is 0 if everything was measured on
    every node, and None if it was not recorded.
    """


Record = MetricsRecord | ValidationRecord | EventRecord | EnergyRecord

_KIND_BY_KEY: dict[str, type[Record]] = {
    "validation": ValidationRecord,
    "event": EventRecord,
    "energy_kwh": EnergyRecord,
}


def parse_record(line: str) -> Record:
    """Parse one line of metrics.jsonl.

    Raises:
        ValueError: the line is not a record.
    """
    value = json.loads(line)
    return _kind(value).model_validate(value)


def _kind(value: Any) -> type[Record]:
    found = (kind for key, kind in _KIND_BY_KEY.items() if isinstance(value, dict) and key in value)
    return next(found, MetricsRecord)


def _why_no_record(error: ValueError, line: bytes) -> str:
    if isinstance(error, ValidationError):
        return wrong_values(error, _kind(json.loads(line)))
    return why_unreadable(error)


def dump_record(record: Record) -> str:
    """Return a record's line of metrics.jsonl, without a newline. Fields that were not measured are left out.

    A loss or norm that was measured but is not finite is written as null.
    """
    fields = type(record).model_fields.items()
    absent = {name for name, field in fields if not field.is_required() and getattr(record, name) is None}
    return record.model_dump_json(exclude=absent)


def perplexity(loss: float | None) -> float | None:
    """Return the exponential of a loss; None if the loss is not finite.

    The result is at most e^20, because larger perplexities have no meaning.
    """
    return None if loss is None else math.exp(min(loss, 20.0))


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a metrics file in order. An unfinished last line, which a killed process may
    leave, is not read.

    When a training returns to a checkpoint, the records that were already written for later iterations become invalid.
    `valid_records` removes them.

    Raises:
        InputError: the file does not exist, or a line is not a record.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        expected = "the metrics.jsonl of a training that has begun; check the run's folder"
        raise InputError("no such file", where=str(path), expected=expected) from error
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            yield parse_record(line.decode("utf-8"))
        except ValueError as error:
            reason = _why_no_record(error, line)
            expected = "a JSON record as the training writes it; restore the file, or delete this line"
            raise InputError(f"not a metrics record: {reason}", where=f"{path}:{number}", expected=expected) from error


def read_tail(path: Path, limit: int = _BLOCK_BYTES) -> list[Record]:
    """Return the last records of a metrics file, oldest first. Truncated or damaged lines are skipped.

    `limit` is the number of bytes that are read from the end of the file.
    """
    records = [_record_or_none(line) for line in _newest_lines(path, limit)]
    return [record for record in reversed(records) if record is not None]


def last_records(path: Path) -> tuple[MetricsRecord | None, ValidationRecord | None]:
    """Return the newest step and the newest validation of a metrics file. Lines that are not records are skipped.

    The file is read from its end, a block at a time, until both are found. A file without any validation is read as a
    whole.
    """
    step: MetricsRecord | None = None
    validation: ValidationRecord | None = None
    for line in _newest_lines(path):
        # A large training has thousands of steps between two validations. Only the newest step is parsed.
        if (validation if b'"validation":' in line else step) is not None:
            continue
        record = _record_or_none(line)
        if isinstance(record, MetricsRecord):
            step = record
        elif isinstance(record, ValidationRecord):
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
    """Yield the complete lines of a file, newest first. Yield nothing if the file does not exist.

    Text after the last newline is still being written and is left out. Lines that begin before the last `limit` bytes
    are left out too.
    """
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    with handle:
        end = handle.seek(0, os.SEEK_END)
        stop = 0 if limit is None else max(0, end - limit)
        pieces: list[bytes] = []  # Pieces of the line that continues at `end`, last piece first.
        ended = False  # Whether a newline follows these pieces.
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


def valid_records(path: Path) -> tuple[list[MetricsRecord], list[ValidationRecord]]:
    """Return the valid training and validation records, in order of their iterations.

    A training that resumes from a checkpoint may run iterations again. A new record of an iteration therefore
    invalidates all earlier records of this iteration and of later iterations.
    """
    steps: list[MetricsRecord] = []
    checks: list[ValidationRecord] = []
    for record in read_records(path):
        if isinstance(record, MetricsRecord):
            while steps and steps[-1].iteration >= record.iteration:
                steps.pop()
            while checks and checks[-1].iteration >= record.iteration:
                checks.pop()
            steps.append(record)
        elif isinstance(record, ValidationRecord):
            while checks and checks[-1].iteration >= record.iteration:
                checks.pop()
            checks.append(record)
    return steps, checks


def events(path: Path) -> list[EventRecord]:
    """Return all events of the guards in order, including those of iterations that a roll-back made invalid."""
    return [record for record in read_records(path) if isinstance(record, EventRecord)]


def total_energy(path: Path) -> EnergyRecord | None:
    """Return the energy and CO2 of all segments together, including repeated work; None if they were not measured.

    The other fields are those of the newest record. A segment's meter starts at 0. A new meter is assumed if the
    segment's number changes or the energy falls.
    """
    total: EnergyRecord | None = None
    before: EnergyRecord | None = None
    for record in read_records(path):
        if not isinstance(record, EnergyRecord):
            continue
        goes_on = before is not None and record.segment == before.segment and record.energy_kwh >= before.energy_kwh
        since = before if goes_on else None
        columns = ("energy_kwh", "co2_kg", "estimated_kwh")
        sums = {column: _added(column, record, since, total) for column in columns}
        total, before = record.model_copy(update=sums), record
    return total


def _added(column: str, now: EnergyRecord, since: EnergyRecord | None, total: EnergyRecord | None) -> float | None:
    """Return `total` plus the increase from `since` to `now`; None if one of them has no value in the column.

    `since` and `total` count as 0 if they are None.
    """
    end, start, sum_before = (0.0 if each is None else getattr(each, column) for each in (now, since, total))
    return None if None in (end, start, sum_before) else end - start + sum_before


def find_step(path: Path, iteration: int) -> MetricsRecord | None:
    """Return the newest record of an iteration; None if it was never recorded or there is no metrics file.

    The file is read from its end, a block at a time. Lines that are not records are skipped.
    """
    number = str(iteration).encode()
    for line in _newest_lines(path):
        # Parsing is slow, so only the few lines that contain the digits of the iteration are parsed.
        record = _record_or_none(line) if number in line else None
        if isinstance(record, MetricsRecord) and record.iteration == iteration:
            return record
    return None
