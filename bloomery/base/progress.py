"""Progress of long work on stderr: a bar on a terminal, a line about every 10 seconds elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TextIO, TypeVar

from bloomery.base.written_values import as_written

T = TypeVar("T")
_LINE_EVERY_SECONDS = 10.0


def say(message: str) -> None:
    """Print one line of log output for a person on stderr.

    Values of the configuration's environment variables are shown as they were written (`${NAME}`).
    """
    # If the process that reads the pipe has ended, the log line is lost, but the work continues.
    with contextlib.suppress(OSError):
        print(as_written(message), file=sys.stderr, flush=True)


def has_terminal(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal that can redraw a line."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """Progress of a task: `with Progress("measure", total) as bar: bar.advance()`. `total` is None if it is unknown."""

    def __init__(self, title: str, total: int | None, unit: str = "documents") -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done = 0
        self._started = time.monotonic()
        self._last_line = self._started
        self._bar: object | None = None

    def __enter__(self) -> Self:
        if has_terminal(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self.unit),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            bar.start()
            bar.add_task(self.title, total=self.total)
            self._bar = bar
        return self

    def advance(self, count: int = 1) -> None:
        """Report that `count` more units are done."""
        self.done += count
        if self._bar is not None:
            self._bar.advance(0, count)  # type: ignore[attr-defined]
        elif time.monotonic() - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            say(self._line())

    def _line(self) -> str:
        share = f" of {self.total} ({100 * self.done / self.total:.0f} %)" if self.total else ""
        return f"{self.title}: {self.done}{share} {self.unit}, {time.monotonic() - self._started:.0f} s"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]
        elif kind is None:
            say(self._line())


def track(items: Iterable[T], title: str, total: int | None = None, unit: str = "items") -> Iterator[T]:
    """Iterate over `items` and show the progress."""
    with Progress(title, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()
