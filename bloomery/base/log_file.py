"""Copy what a process writes to stderr to a log file, line by line."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from bloomery.base.atomic import explained, known_error
from bloomery.base.errors import BloomeryError
from bloomery.base.written_values import as_written


class LoggedStream(io.TextIOBase):
    """A text stream that hands each whole line to a log file and to a function that shows it to a person."""

    def __init__(self, file: TextIO | None, terminal: TextIO) -> None:
        """Create a stream. `file` is the open log file, or None for no log. `terminal` is the stream that prints
        lines."""
        self._file = file
        self.terminal = terminal
        self.show: Callable[[str], None] = self._print
        """Function that prints one line. The line is passed without the line feed at its end."""
        self._unfinished = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Write the complete lines of `text`. An unfinished last line is kept until it is complete or `flush_line` is
        called."""
        with self._lock:
            *lines, self._unfinished = (self._unfinished + text).split("\n")
            for line in lines:
                self._write_line(line)
        return len(text)

    def write_to_log(self, line: str) -> None:
        """Write a line to the log file alone."""
        with self._lock:
            self._log(as_written(line))

    def flush_line(self) -> None:
        """Write an unfinished last line."""
        with self._lock:
            if self._unfinished:
                self._write_line(self._unfinished)
            self._unfinished = ""

    def _write_line(self, line: str) -> None:
        line = as_written(line)
        self._log(line)
        with contextlib.suppress(OSError):  # the terminal is closed
            self.show(line)

    def _log(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def _print(self, line: str) -> None:
        print(line, file=self.terminal, flush=True)

    def writable(self) -> bool:
        """Return true."""
        return True


@contextlib.contextmanager
def stderr_in_log(path: Path) -> Iterator[LoggedStream]:
    """Also write everything that this process prints to stderr into a new file at `path`.

    An error that leaves the `with` block is written only to the file, because the command line prints it on the
    terminal.

    Raises:
        ResourceError: the file cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8", errors="replace")
    with file:
        stream = LoggedStream(file, sys.stderr)
        sys.stderr = stream
        try:
            yield stream
        except (BloomeryError, OSError) as error:
            stream.flush_line()
            stream.write_to_log(f"error: {known_error(error) or error}")
            raise
        finally:
            stream.flush_line()
            sys.stderr = stream.terminal


@contextlib.contextmanager
def lines_shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Call `show` with each line that this process writes to stderr, instead of printing the line on the terminal."""
    before = sys.stderr
    stream = before if isinstance(before, LoggedStream) else LoggedStream(None, before)
    shown, stream.show, sys.stderr = stream.show, show, stream
    try:
        yield
    finally:
        stream.flush_line()
        stream.show, sys.stderr = shown, before
