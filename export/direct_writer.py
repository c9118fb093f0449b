"""Write a large file past the page cache, and compute its hash at the same time.

Copying gigabytes into the page cache can take longer than the disk needs, and displaces the files of other programs.
The data is therefore collected in two buffers. While a thread writes one buffer, the other one is filled and hashed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from bloomery.base.atomic import known_error
from bloomery.base.errors import ResourceError
from bloomery.contracts.file_entry import FileEntry

_BUFFER_BYTES = 1 << 24
_BLOCK_BYTES = 4096
"""Direct writes need addresses, positions and sizes that are multiples of the disk's block size, at most this one."""
_REFUSED = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
"""Errors of file systems that have no direct writes, such as those in memory."""
_DIRECT: int = getattr(os, "O_DIRECT", 0)  # macOS has no such flag


class DirectWriter:
    """A new file, open for writing. Use it as a context."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            ResourceError: the file cannot be created.
            TryAgainError: the disk or its server has a temporary fault.
        """
        self._path, self._stack = path, ExitStack()
        with self._explained():
            self._file, self._direct = _create(path)
        self._stack.callback(os.close, self._file)
        self._pool = self._stack.enter_context(ThreadPoolExecutor(1))
        # Anonymous maps start at the beginning of a page.
        self._buffers = [mmap.mmap(-1, _BUFFER_BYTES) for _ in range(2)]
        self._filled = self._bytes = 0
        self._pending: Future[None] | None = None
        self._digest = hashlib.sha256()

    def __enter__(self) -> DirectWriter:
        """Return the open file."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self._stack.close()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            ResourceError: the bytes of this call or of an earlier one cannot be written.
            TryAgainError: the disk or its server has a temporary fault.
        """
        view = memoryview(data)
        while view:
            count = min(len(view), _BUFFER_BYTES - self._filled)
            self._buffers[0][self._filled : self._filled + count] = view[:count]
            self._filled, view = self._filled + count, view[count:]
            if self._filled == _BUFFER_BYTES:
                self._send()

    def finish(self) -> FileEntry:
        """Write the rest and wait until the whole file is on the disk. Return its size and hash.

        Raises:
            ResourceError: some bytes cannot be written.
            TryAgainError: the disk or its server has a temporary fault.
        """
        self._send()
        self._wait()
        with self._explained():
            os.fsync(self._file)
        return FileEntry(bytes=self._bytes, sha256=self._digest.hexdigest())

    def _send(self) -> None:
        """Start to write the filled buffer, and hash it meanwhile."""
        self._wait()
        filled = memoryview(self._buffers[0])[: self._filled]
        self._pending = self._pool.submit(self._write_all, filled)
        self._digest.update(filled)
        self._bytes += self._filled
        self._filled = 0
        self._buffers.reverse()

    def _wait(self) -> None:
        """Wait until the previous buffer is written."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            with self._explained():
                pending.result()

    def _write_all(self, data: memoryview) -> None:
        done = 0
        while done < len(data):
            left = len(data) - done
            if self._direct and (left < _BLOCK_BYTES or done % _BLOCK_BYTES):
                self._leave_direct()
            count = left - left % _BLOCK_BYTES if self._direct else left
            try:
                done += os.write(self._file, data[done : done + count])
            except OSError as error:
                if error.errno not in _REFUSED or not self._direct:
                    raise
                self._leave_direct()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise an error that names the file instead of an OSError."""
        try:
            yield
        except OSError as error:
            named = OSError(error.errno, error.strerror, str(self._path))
            raise (
                known_error(named)
                or ResourceError(
                    f"the file cannot be written: {error.strerror}",
                    where=str(self._path),
                    expected="a writable folder with enough free space",
                )
            ) from error

    def _leave_direct(self) -> None:
        """Write through the page cache from now on: the end of the file, or on a disk with larger blocks."""
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) & ~_DIRECT)
        self._direct = False


def _create(path: Path) -> tuple[int, bool]:
    """Create a file. Return its descriptor, and whether writes bypass the page cache."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags | _DIRECT, 0o666), bool(_DIRECT)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return os.open(path, flags, 0o666), False
