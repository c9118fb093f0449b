"""Write a file and compute its hash at the same time, so that large files need not be read again for hashing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from bloomery.contracts.file_entry import FileEntry


def write_hashed(path: Path, write: Callable[[Any], object]) -> FileEntry:
    """Create a file, and return its size and hash. The file is durable (fsync) on return.

    Args:
        path: the new file. Its folder must exist.
        write: function that writes the content to an open file, such as `torch.save`.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("wb") as handle:
        hashing = _HashingFile(handle)
        write(hashing)
        if hashing.problem is not None:
            raise hashing.problem
        handle.flush()
        # The file must be durable before a manifest lists it.
        os.fsync(handle.fileno())
    return FileEntry(bytes=hashing.bytes, sha256=hashing.digest.hexdigest())


class _HashingFile:
    """File wrapper that hashes written data and stores errors.

    It raises no exception, because torch's writer would then abort the process.
    """

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.digest = hashlib.sha256()
        self.bytes = 0
        self.problem: OSError | None = None

    def write(self, data: Any) -> int:
        size = len(data)
        if self.problem is None:
            try:
                self._handle.write(data)
                self.digest.update(data)
                self.bytes += size
            except OSError as error:
                self.problem = error
        return size

    def flush(self) -> None:
        """Do nothing. `write_hashed` flushes the underlying file after the last write."""
