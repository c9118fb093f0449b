"""metrics.jsonl: one record an iteration, the truth about a training; every other log is rendered from it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel, BeforeValidator, ConfigDict

from bloomery.base.errors import InputError

_BLOCK_BYTES = 256 << 10
"""Some hundreds of records: enough for a speed, and a millisecond to read of a file of any size."""


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Finite = Annotated[float | None, BeforeValidator(_finite)]
"""A measured value; None when it is not finite, for JSON has no such numbers."""


class MetricsRecord(BaseModel):
    """One optimizer step. Counts include the step itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    global_batch_size: int
    learning_rate: float
    loss: Finite
    """Mean over the tokens of the global batch; None when it is not finite."""
    grad_norm: Finite
    """Of the whole gradient before clipping; None when it is not finite."""
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
    sequence_length: int | None = None
    """Tokens of a sample, where a curriculum cuts it."""
    skipped_samples: int = 0
    """Of the consumed samples, those that were not trained on (`training.skip`, roll-backs)."""
    update_skipped: bool = False
    """The weights stayed as they were: a guard left the update out, or fp16 overflowed."""
    skipped_updates: int = 0
    """Such iterations of the whole training so far, this one included."""
    non_finite: int = 0
    """Of all iterations so far, those that are not `is_finite`."""
    loss_scale: float | None = None
    """fp16: the scale that the gradient was computed with."""
    overflowed: bool | None = None
    """fp16: the scaled gradient overflowed while the scale could still fall: part of finding the scale."""
    fastest_rank: int | None = None
    fastest_seconds: float | None = None
    """Time that the fastest rank computed in the forward and backward passes, its waiting for others left out."""
    slowest_rank: int | None = None
    slowest_seconds: float | None = None
    memory_bytes: int | None = None
    """Most memory that any rank has held at once: GPU memory on a GPU, main memory on a CPU."""

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient were; what overflowed in the search for a loss scale is not held against it."""
        return self.loss is not None and (self.grad_norm is not None or bool(self.overflowed))


class Stamp(TypedDict):
    """Where and when a record is made: the fields that every kind of record shares."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    """UTC, ISO 8601."""


class _Stamped(BaseModel):
    """Where and when a record beside the steps was made: the fields of `Stamp`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    """UTC, ISO 8601."""


class ValidationRecord(_Stamped):
    """Losses of the fixed, named validation sets after an iteration."""

    validation: dict[str, Finite]
    """Mean loss per set."""
    validation_mean: Finite
    """Mean over sets."""


class EventRecord(_Stamped):
    """Something that a guard saw and did."""

    event: Literal["spike", "non_finite", "drift", "resumed"]
    action: Literal["log", "skip", "roll_back", "stop"]
    message: str
    from_sample: int | None = None
    """First sample that the event is about; None: none in particular."""
    to_sample: int | None = None
    """First behind them."""


class EnergyRecord(_Stamped):
    """Energy of a segment so far, over all its nodes."""

    energy_kwh: float
    co2_kg: float
    nodes: int
    """Nodes that were measured."""
    estimated_kwh: float | None = None
    """Of `energy_kwh`, what no sensor measured: memory, and processors whose counters nobody may read. 0: all was
    measured, on every node; None: not recorded."""


Record = MetricsRecord | ValidationRecord | EventRecord | EnergyRecord

_KIND_BY_KEY: dict[str, type[Record]] = {
    "validation": ValidationRecord,
    "event": EventRecord,
    "energy_kwh": EnergyRecord,
}


def parse_record(line: str) -> Record:
    """One line of metrics.jsonl. Raises ValueError."""
    value = json.loads(line)
    kind = next((kind for key, kind in _KIND_BY_KEY.items() if key in value), MetricsRecord)
    return kind.model_validate(value)


def dump_record(record: Record) -> str:
    """The line of metrics.jsonl, without its newline: columns that nobody measured are left out.

    A loss or norm that is not finite is null: it was measured.
    """
    fields = type(record).model_fields.items()
    absent = {name for name, field in fields if not field.is_required() and getattr(record, name) is None}
    return record.model_dump_json(exclude=absent)


def perplexity(loss: float | None) -> float | None:
    """exp of a loss; beyond e^20, where it says nothing more, no greater. None of a loss that is not finite."""
    return None if loss is None else math.exp(min(loss, 20.0))


def read_records(path: Path) -> Iterator[Record]:
    """Records of a metrics file in order; an unfinished last line (the writer was killed) is left out.

    Where a training went back to a checkpoint, what was recorded behind it no longer counts: see `valid_records`.
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


def valid_records(path: Path) -> tuple[list[MetricsRecord], list[ValidationRecord]]:
    """Training and validation records by iteration, as they count.

    A training that goes on from a checkpoint repeats iterations, or, after a roll-back, has fewer of them: with the
    first that it records all later ones of before are void.
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
    """All that guards saw and did, in order; also what was gone back from."""
    return [record for record in read_records(path) if isinstance(record, EventRecord)]


def total_energy(path: Path) -> EnergyRecord | None:
    """Energy and CO2 of all segments together, also of work that was done again; None when nobody measured.

    The other fields are those of the newest record. A segment's meter begins at 0: where the numbers fall, or the
    segment is another, a new one began.
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
    """`total` and what `now` has more than `since`, none of which counts as 0; None where one does not say it."""
    end, start, sum_before = (0.0 if each is None else getattr(each, column) for each in (now, since, total))
    return None if None in (end, start, sum_before) else end - start + sum_before


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
