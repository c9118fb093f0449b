"""Show the progress of a training: with a progress bar on a terminal, and with a line every 30 s elsewhere.

The launcher follows `metrics.jsonl`, which rank 0 writes. The training itself prints no line for an iteration.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TextIO

from bloomery.base.log_file import LoggedStream
from bloomery.base.progress import has_terminal
from bloomery.base.units import format_bytes, format_count, format_finite, format_seconds
from bloomery.contracts.metrics_record import MetricsRecord, parse_record
from bloomery.detect.speed import speed_of

if TYPE_CHECKING:
    from rich.progress import BarColumn, Progress

_LINE_EVERY_SECONDS = 30.0
_LEAST_BAR, _MOST_BAR = 4, 20
"""Smallest and largest width of the bar, in characters."""
_SPEED_OVER_ITERATIONS = 50
"""The speed and the time left are computed from this many iterations."""


class TrainingProgressBar:
    """Show the newest iteration of a metrics file. Use this as a context manager, and call `update` about once a
    second."""

    def __init__(self, metrics: Path, *, now: Callable[[], float] = time.monotonic) -> None:
        """Show only records that are added to `metrics` from now on. `now` is a clock in seconds."""
        self._metrics = metrics
        self._now = now
        self._read_to = metrics.stat().st_size if metrics.exists() else 0
        self._recent: deque[MetricsRecord] = deque(maxlen=_SPEED_OVER_ITERATIONS)
        self._last_line = -_LINE_EVERY_SECONDS
        self._shown = 0
        self._newest: MetricsRecord | None = None
        self._bar: Progress | None = None
        self._bar_column: BarColumn
        self._terminal: TextIO = sys.stderr.terminal if isinstance(sys.stderr, LoggedStream) else sys.stderr

        self.on_terminal = has_terminal(self._terminal)
        """Whether the progress is shown as a bar on a terminal. If not, it is shown as lines."""

    def __enter__(self) -> TrainingProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.update()
        if self._bar is not None:
            self._bar.stop()
        elif self._newest is not None and self._newest.iteration != self._shown:
            self._print_line(self._newest)

    def show(self, line: str) -> None:
        """Print a line of the training above the bar."""
        with contextlib.suppress(OSError):  # The terminal has been closed.
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                print(line, file=self._terminal, flush=True)

    def update(self) -> None:
        """Read what was added to the metrics file, and show the newest iteration."""
        for added in self._new_records():
            self._recent.append(added)
            self._newest = added
        record = self._newest
        if record is None:
            return
        if self.on_terminal:
            self._update_bar(record)
        elif record.iteration != self._shown and self._now() - self._last_line >= _LINE_EVERY_SECONDS:
            self._print_line(record)

    def _new_records(self) -> list[MetricsRecord]:
        """Return the training records that were added since the last call. Leave an unfinished last line for later."""
        try:
            with self._metrics.open("rb") as handle:
                handle.seek(self._read_to)
                data = handle.read()
        except OSError:  # The file does not exist yet, or its file server does not answer. Only the display is late.
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                record = parse_record(line.decode("utf-8"))
                if isinstance(record, MetricsRecord):
                    found.append(record)
        return found

    def _seconds_left(self, record: MetricsRecord) -> float:
        return (record.total_iterations - record.iteration) * median(each.seconds for each in self._recent)

    def _facts(self, record: MetricsRecord, width: int | None = None) -> str:
        """Return loss, time left, speed and memory as one phrase. If it is longer than `width` characters, the
        memory is left out first and the speed second."""
        left = self._seconds_left(record)
        loss = f"loss {format_finite(record.loss, '.4f')}"
        end = f"{format_seconds(left)} left" if record.iteration < record.total_iterations else "done"
        facts = [f"{format_count(speed_of(self._recent).tokens_per_second)} tokens/s"]
        if record.memory_bytes is not None:
            facts.append(f"at most {format_bytes(record.memory_bytes)} per rank")
        while True:
            text = ", ".join([loss, *facts, end])
            if width is None or len(text) <= width or not facts:
                return text
            facts.pop()

    def _print_line(self, record: MetricsRecord) -> None:
        share = 100 * record.iteration / record.total_iterations
        self._last_line, self._shown = self._now(), record.iteration
        self.show(
            f"iteration {record.iteration:,} of {record.total_iterations:,} ({share:.0f} %): {self._facts(record)}"
        )

    def _update_bar(self, record: MetricsRecord) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar_column = BarColumn()
            self._bar = Progress(
                TextColumn("iteration"),
                MofNCompleteColumn(),
                self._bar_column,
                TextColumn("{task.fields[facts]}"),
                console=Console(file=self._terminal),
                redirect_stdout=False,
                redirect_stderr=False,
                auto_refresh=False,
            )
            self._bar.start()
            self._bar.add_task("", total=record.total_iterations, facts="")
        # The bar takes what the numbers leave of the line.
        numbers = len(f"iteration {record.total_iterations}/{record.total_iterations}   ")
        room = self._bar.console.width - numbers
        facts = self._facts(record, room - _LEAST_BAR)
        self._bar_column.bar_width = max(_LEAST_BAR, min(_MOST_BAR, room - len(facts)))
        self._bar.update(self._bar.task_ids[0], completed=record.iteration, total=record.total_iterations, facts=facts)
        self._bar.refresh()
