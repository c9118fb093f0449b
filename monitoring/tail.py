"""The end of a log, and what is added to it: of a run on this machine or of a repository on a Hub.

Both are a size and a way to read bytes; all else is shared. Following shows whole lines only: the writer cuts an
unfinished last line when it starts again, so what was shown is never taken back.
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
"""What was read last is compared with what lies there now: another file of the same name is noticed."""


class Log(Protocol):
    """A file that grows."""

    name: str

    def size(self) -> int | None:
        """Bytes now; None while there is no such file. Later reads see at least these."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end`, which `size` has promised; fewer when the file was cut since."""
        ...


class LocalLog:
    """A file on this machine. `tail -F` for a file that is moved away: it is opened anew each time."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def size(self) -> int | None:
        """Bytes now."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, start: int, end: int) -> bytes:
        """Bytes of the file; none when it is gone."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(start)
                return handle.read(end - start)
        except FileNotFoundError:
            return b""


class HubLog:
    """A file of a model repository, each time as its newest commit holds it."""

    def __init__(self, hub: Hub, repository: str, path: str) -> None:
        self.name = f"{hub.endpoint}/{repository}/{path}"
        self._hub, self._repository, self._path = hub, repository, path
        self._commit = ""
        self._size: int | None = None

    def size(self) -> int | None:
        """Bytes in the newest commit. What is read afterwards comes from that commit, whatever is pushed meanwhile."""
        head = self._hub.head(self._repository)
        if head != self._commit:
            self._size = self._hub.size(self._repository, self._path, head)
            self._commit = head
        return self._size

    def read(self, start: int, end: int) -> bytes:
        """Bytes of the file in that commit."""
        return self._hub.read(self._repository, self._path, self._commit, start, end)


def _pieces(log: Log, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = log.read(start, min(end, start + _BLOCK_BYTES))
        if not data:
            return
        start += len(data)
        yield data


def start_of_last_lines(log: Log, size: int, lines: int) -> int:
    """Where the last `lines` lines of the first `size` bytes begin; an unfinished last line counts as one."""
    if lines <= 0:
        return size
    look = _FIRST_LOOK_BYTES
    while True:
        start = max(0, size - look)
        data = b"".join(_pieces(log, start, size))
        # The newline at the very end closes the last line and begins none.
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
    """Write the last lines. Raises InputError when there is no such file."""
    size = log.size()
    if size is None:
        raise InputError("no such file", where=log.name)
    for data in _pieces(log, start_of_last_lines(log, size, lines), size):
        write(data)


class Follower:
    """What was shown so far, and the way to show the rest. No byte twice, none left out."""

    def __init__(self, log: Log, lines: int, write: Callable[[bytes], None]) -> None:
        self._log, self._lines, self._write = log, lines, write
        self._offset: int | None = None
        self._mark = b""
        """The last bytes before the offset."""
        self._missing = False

    def poll(self) -> None:
        """Write the whole lines that came since."""
        size = self._log.size()
        if size is None:
            if not self._missing:
                say(f"{self._log.name}: not there yet" if self._offset is None else f"{self._log.name}: gone; waiting")
            self._missing = True
            return
        self._missing = False
        if self._offset is None:
            self._offset = start_of_last_lines(self._log, size, self._lines)
            self._mark = self._log.read(max(0, self._offset - _MARK_BYTES), self._offset)
        elif size != self._offset and self._is_another(size):
            say(f"{self._log.name}: the file began anew")
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
    """Write the last lines and, for ever, what is added; a Hub that is away is waited for."""
    follower = Follower(log, lines, write)
    while True:
        try:
            follower.poll()
        except TryAgainError as error:
            say(f"{error}; trying again in {every_seconds:g} s")
        time.sleep(every_seconds)
