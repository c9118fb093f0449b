"""Read metrics.jsonl (`bloomery.contracts.metrics_record`), whole or from its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from bloomery.base.errors import InputError
from bloomery.base.json_text import parse_json
from bloomery.base.unreadable import why_unreadable
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.damaged_lines import report_damaged_lines
from bloomery.contracts.metrics_record import (
    EnergyRecord,
    EventRecord,
    MetricsRecord,
    Record,
    ValidationRecord,
    parse_record,
    record_kind,
)

_BLOCK_BYTES = 256 << 10
"""Block size for reading, in bytes. A block is read in 1 ms. The few hundred records of a block are enough to compute
the training's speed."""


def _why_no_record(error: ValueError, line: bytes) -> str:
    if isinstance(error, ValidationError):
        return wrong_values(error, record_kind(parse_json(line)))
    return why_unreadable(error)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a metrics file in order. An unfinished last line, which a killed process may
    leave, is not read.

    A damaged line is skipped, because it must not block an export after weeks of training. The number of damaged lines
    is reported on stderr.

    When a training returns to a checkpoint, the records that were already written for later iterations become invalid.
    `valid_records` removes them.

    Raises:
        InputError: the file does not exist.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        expected = "the metrics.jsonl of a training that has begun; check the run's folder"
        raise InputError("no such file", where=str(path), expected=expected) from error
    damaged, first = 0, ""
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            record = parse_record(line)
        except ValueError as error:
            first = first or f"the first is line {number}: {_why_no_record(error, line)}"
            damaged += 1
            continue
        yield record
    report_damaged_lines(path, damaged, first)


def read_tail(path: Path, limit: int = _BLOCK_BYTES) -> list[Record]:
    """Return the last records of a metrics file, oldest first. Damaged lines are skipped and reported.

    `limit` is the number of bytes that are read from the end of the file.
    """
    lines = list(_newest_lines(path, limit))
    records = [_record_or_none(line) for line in lines]
    damaged = [line for line, record in zip(lines, records, strict=True) if record is None]
    if damaged:
        report_damaged_lines(path, len(damaged), f"the newest of them: {_why_damaged(damaged[0])}")
    return [record for record in reversed(records) if record is not None]


def newest_records(path: Path) -> Iterator[Record]:
    """Yield the records of a metrics file, newest first. Truncated or damaged lines are skipped.

    The file is read from its end, a block at a time, so a reader that needs only the last records reads only these.
    Yield nothing if the file does not exist.
    """
    for line in _newest_lines(path):
        record = _record_or_none(line)
        if record is not None:
            yield record


def newest_validations(path: Path, limit: int) -> Iterator[ValidationRecord]:
    """Yield the validations among the last `limit` bytes of a metrics file, newest first.

    Lines of other records are not parsed. Yield nothing if the file does not exist.
    """
    for line in _newest_lines(path, limit):
        record = _record_or_none(line) if b'"validation":' in line else None
        if isinstance(record, ValidationRecord):
            yield record


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


def _why_damaged(line: bytes) -> str:
    try:
        parse_record(line)
    except ValueError as error:
        return _why_no_record(error, line)
    raise AssertionError("the line is a record")


def _record_or_none(line: bytes) -> Record | None:
    try:
        return parse_record(line)
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


def total_energy(path: Path, last: int | None = None) -> EnergyRecord | None:
    """Return the energy and CO2 of all segments together, including repeated work; None if they were not measured.

    If `last` is given, records after this iteration are left out.

    The other fields are those of the newest record. A segment's meter starts at 0. A new meter is assumed if the
    segment's number changes or the energy falls.
    """
    total: EnergyRecord | None = None
    before: EnergyRecord | None = None
    for record in read_records(path):
        if not isinstance(record, EnergyRecord) or (last is not None and record.iteration > last):
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
    """Return the newest record of an iteration. Return None if the file does not exist or has no such record.

    The file is read from its end, a block at a time. Lines that are not records are skipped.
    """
    number = str(iteration).encode()
    for line in _newest_lines(path):
        # Parsing is slow, so only the few lines that contain the digits of the iteration are parsed.
        record = _record_or_none(line) if number in line else None
        if isinstance(record, MetricsRecord) and record.iteration == iteration:
            return record
    return None
