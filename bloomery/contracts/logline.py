"""Render and parse Megatron's log line, which users search with grep.

The line is rendered from a metrics record, without the columns that were not measured. Three formats are parsed: this
project's lines, BigScience's lines (with a rank before the line, and columns for loss scale, zeros, and skipped and nan
iterations), and the lines of today's Megatron-LM (with milliseconds and throughput per GPU). Unknown columns are
retained as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.units import format_energy
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord, MetricsRecord, ValidationRecord, perplexity

_HEAD = re.compile(r"(?:^|[\s:\]])iteration\s+(\d+)\s*/\s*(\d+)\s*\|(.*)$")


@dataclass(frozen=True)
class LogLine:
    """Values of one iteration's log line. A value is None if the line does not contain it."""

    iteration: int
    total_iterations: int
    consumed_samples: int | None = None
    consumed_tokens: int | None = None
    seconds: float | None = None
    """Elapsed time of the iteration in seconds."""
    learning_rate: float | None = None
    global_batch_size: int | None = None
    loss: float | None = None
    loss_scale: float | None = None
    grad_norm: float | None = None
    num_zeros: float | None = None
    skipped_iterations: int | None = None
    nan_iterations: int | None = None
    samples_per_second: float | None = None
    tflops: float | None = None
    """TFLOP/s of one GPU. BigScience's numbers include recomputation."""
    other: dict[str, str] = field(default_factory=dict)
    """Text of unknown columns, by name."""


def _milliseconds(text: str) -> float:
    return float(text) / 1000


_COLUMNS: dict[str, tuple[str, Callable[[str], Any], str | None]] = {
    "consumed samples": ("consumed_samples", int, "12d"),
    "consumed tokens": ("consumed_tokens", int, "12d"),
    "elapsed time per iteration (s)": ("seconds", float, ".2f"),
    "elapsed time per iteration (ms)": ("seconds", _milliseconds, None),
    "learning rate": ("learning_rate", float, ".3E"),
    "global batch size": ("global_batch_size", int, "5d"),
    "lm loss": ("loss", float, ".6E"),
    "loss scale": ("loss_scale", float, ".1f"),
    "grad norm": ("grad_norm", float, ".3f"),
    "num zeros": ("num_zeros", float, ".1f"),
    "number of skipped iterations": ("skipped_iterations", int, "3d"),
    "number of nan iterations": ("nan_iterations", int, "3d"),
    "samples per second": ("samples_per_second", float, ".3f"),
    "TFLOPs": ("tflops", float, ".2f"),
    "throughput per GPU (TFLOP/s/GPU)": ("tflops", float, None),
}
"""Map from a column to its field of `LogLine`, its parser and its print format, in the order of a line.

Columns with print format None are only parsed.
"""


def parse_line(line: str) -> LogLine | None:
    """Parse a log line; return None if the line does not describe an iteration.

    Raises:
        ValueError: a number cannot be parsed.
    """
    head = _HEAD.search(line.rstrip("\n"))
    if head is None:
        return None
    values: dict[str, Any] = {"iteration": int(head.group(1)), "total_iterations": int(head.group(2))}
    other = {}
    # Every column ends with a bar. Text after the last bar is not a column, or it was truncated when a job ended.
    for cell in head.group(3).split("|")[:-1]:
        name, colon, text = (part.strip() for part in cell.partition(":"))
        if not colon:
            continue
        if name in _COLUMNS:
            key, kind, _ = _COLUMNS[name]
            values[key] = kind(text)
        else:
            other[name] = text
    return LogLine(**values, other=other)


def read_log(path: Path) -> Iterator[tuple[int, LogLine]]:
    """Yield (line number, parsed line) for every iteration of a log. Other lines are skipped.

    Raises:
        InputError: the file cannot be read, or a number in an iteration's line is invalid.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            for number, line in enumerate(handle, start=1):
                try:
                    found = parse_line(line)
                except ValueError as error:
                    raise InputError(
                        "not a valid line of an iteration: the line contains a number that cannot be read",
                        where=f"{path}:{number}",
                        expected="a number such as 1, 2.5 or 6.0E-05 in each column; correct or delete the line",
                    ) from error
                if found is not None:
                    yield number, found
    except OSError as error:
        expected = "an existing log file that this user may read"
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(path), expected=expected) from error


def render_line(line: LogLine) -> str:
    """Return the line in the format of BigScience's published logs, with the columns that `line` has."""
    cells = [(name, form, getattr(line, key)) for name, (key, _, form) in _COLUMNS.items() if form is not None]
    texts = [f"{name}: {value:{form}}" for name, form, value in cells if value is not None]
    return f" iteration {line.iteration:8d}/{line.total_iterations:8d} | {' | '.join(texts)} |"


def render(record: MetricsRecord) -> str:
    """Return the line of one iteration.

    As in Megatron's log, the numbers of skipped and nan iterations count only the iterations since the previous line.
    """
    return render_line(
        LogLine(
            iteration=record.iteration,
            total_iterations=record.total_iterations,
            consumed_samples=record.consumed_samples,
            consumed_tokens=record.consumed_tokens,
            seconds=record.seconds,
            learning_rate=record.learning_rate,
            global_batch_size=record.global_batch_size,
            loss=_number(record.loss),
            loss_scale=record.loss_scale,
            grad_norm=_number(record.grad_norm),
            skipped_iterations=int(record.update_skipped),
            nan_iterations=int(not record.is_finite),
            samples_per_second=record.samples_per_second,
            tflops=record.tflops_hardware,
        )
    )


def _number(value: float | None) -> float:
    """Return `value`, or NaN if it is None. None in a record means a measured value that was not finite."""
    return math.nan if value is None else value


def render_validation(record: ValidationRecord) -> list[str]:
    """Return the lines of one validation: one for each set, and the unweighted mean of the sets."""
    head = f" validation loss at iteration {record.iteration}"
    return [
        *(f"{head} on {name} | {_losses(loss)}" for name, loss in sorted(record.validation.items())),
        f"{head}, mean over {len(record.validation)} sets | {_losses(record.validation_mean)}",
    ]


def _losses(loss: float | None) -> str:
    return f"lm loss value: {_number(loss):.6E} | lm loss PPL: {_number(perplexity(loss)):.6E} |"


def render_event(record: EventRecord) -> str:
    """Return the line of an event."""
    samples = ""
    if record.from_sample is not None and record.to_sample is not None:
        samples = f"; samples {record.from_sample} to {record.to_sample - 1}"
    what, action = record.event.replace("_", " "), record.action.replace("_", " ")
    return f"[{record.time}] {what} at iteration {record.iteration}: {record.message}{samples}; action: {action}"


def render_energy(record: EnergyRecord) -> str:
    """Return the line of a segment's energy so far."""
    return (
        f"[{record.time}] energy of segment {record.segment} up to iteration {record.iteration}: "
        f"{format_energy(record.energy_kwh, record.co2_kg, record.estimated_kwh)}, "
        f"{record.nodes} node{'s' if record.nodes != 1 else ''}"
    )
