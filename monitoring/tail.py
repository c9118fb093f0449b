"""Show the end of a log, and follow the lines that are added. The log is on this machine or in a repository on a Hub.

Each kind of log only provides its size and a way to read bytes. Following shows only complete lines. A writer that
starts again removes its unfinished last line, so a line that was shown never changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.hub import Hub
from bloomery.base.progress import say

_BLOCK_BYTES = 1 << 20
_FIRST_LOOK_BYTES = 1 << 14
_MARK_BYTES = 64
"""Number of bytes before the current position that are compared with the file, to detect that it was replaced."""


class Log(Protocol):
    """A file that grows."""

    name: str

    def size(self) -> int | None:
        """Return the size in bytes; None if the file does not exist. Later calls of `read` can read up to this size."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`, within the size that `size` returned.

        If the file has become shorter since then, return fewer bytes.
        """
        ...


class LocalLog:
    """A file on this machine. Each call opens it by name, like `tail -F`, because the file may be replaced."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def size(self) -> int | None:
        """Return the current size in bytes; None if the file does not exist."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, start: int, end: int) -> bytes:
        """Return bytes of the file; empty if the file does not exist."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(start)
                return handle.read(end - start)
        except FileNotFoundError:
            return b""


class HubLog:
    """A file of a model repository on a Hub, in the repository's newest commit."""

    def __init__(self, hub: Hub, repository: str, path: str) -> None:
        self.name = f"{hub.endpoint}/{repository}/{path}"
        self._hub, self._repository, self._path = hub, repository, path
        self._commit = ""
        self._size: int | None = None

    def size(self) -> int | None:
        """Return the size in bytes in the newest commit. Later reads use that commit, whatever is pushed meanwhile."""
        head = self._hub.head(self._repository)
        if head != self._commit:
            self._size = self._hub.size(self._repository, self._path, head)
            self._commit = head
        return self._size

    def read(self, start: int, end: int) -> bytes:
        """Return bytes of the file in the commit that `size` found."""
        return self._hub.read(self._repository, self._path, self._commit, start, end)


def _pieces(log: Log, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = log.read(start, min(end, start + _BLOCK_BYTES))
        if not data:
            return
        start += len(data)
        yield data


def start_of_last_lines(log: Log, size: int, lines: int) -> int:
    """Return the position, in bytes, at which the last `lines` lines of the first `size` bytes begin.

    An unfinished last line counts as a line.
    """
    if lines <= 0:
        return size
    look = _FIRST_LOOK_BYTES
    while True:
        start = max(0, size - look)
        data = b"".join(_pieces(log, start, size))
        # A newline at the very end ends the last line and does not begin another line.
        end = len(data) - 1
        for _ in range(lines):
            end = data.rfind(b"\n", 0, max(0, end))
            if end < 0:
                break
        if end >= 0:
            return start + end + 1
        if start == 0:
            return 0
        look *= 4


def show_tail(log: Log, lines: int, write: Callable[[bytes], None]) -> None:
    """Write the last lines. Raises InputError if the file does not exist."""
    size = log.size()
    if size is None:
        raise InputError("no such file", where=log.name, expected="the path of an existing log")
    for data in _pieces(log, start_of_last_lines(log, size, lines), size):
        write(data)


class Follower:
    """Follow a log: remember what was shown, and show each new byte exactly once."""

    def __init__(self, log: Log, lines: int, write: Callable[[bytes], None]) -> None:
        self._log, self._lines, self._write = log, lines, write
        self._offset: int | None = None
        self._mark = b""
        """The last bytes before `_offset`."""
        self._missing = False

    def poll(self) -> None:
        """Write the complete lines that were added since the last call."""
        size = self._log.size()
        if size is None:
            if not self._missing:
                say(
                    f"{self._log.name}: the file does not exist yet; waiting for it"
                    if self._offset is None
                    else f"{self._log.name}: the file was removed; waiting for a new one"
                )
            self._missing = True
            return
        self._missing = False
        if self._offset is None:
            self._offset = start_of_last_lines(self._log, size, self._lines)
            self._mark = self._log.read(max(0, self._offset - _MARK_BYTES), self._offset)
        elif size != self._offset and self._is_another(size):
            say(f"{self._log.name}: the file was replaced; showing it from its start")
            self._offset, self._mark = 0, b""
        self._show(self._offset, size)

    def _is_another(self, size: int) -> bool:
        assert self._offset is not None
        if size < self._offset:
            return True
        return self._log.read(self._offset - len(self._mark), self._offset) != self._mark

    def _show(self, offset: int, size: int) -> None:
        pending = b""
        for data in _pieces(self._log, offset, size):
            pending += data
            whole = pending.rfind(b"\n") + 1
            if whole:
                self._write(pending[:whole])
                offset += whole
                self._mark = (self._mark + pending[:whole])[-_MARK_BYTES:]
                pending = pending[whole:]
        self._offset = offset


def follow(log: Log, lines: int, every_seconds: float, write: Callable[[bytes], None]) -> None:
    """Write the last lines and then, for ever, the lines that are added. If a Hub is unavailable, try again later."""
    follower = Follower(log, lines, write)
    while True:
        try:
            follower.poll()
        except TryAgainError as error:
            say(f"{error}; trying again in {every_seconds:g} s")
        time.sleep(every_seconds)
