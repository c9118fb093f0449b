"""Measure the free space and the write speed of a folder."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

from bloomery.contracts.preflight import DiskState

WRITTEN_BYTES = 1 << 20
"""Bytes of the file that is written. A small file is enough to notice a disk that is broken or full."""


def disk_state(folder: Path, name: str, size: int = WRITTEN_BYTES) -> DiskState:
    """Return the free space of `folder` and the speed at which a file of `size` bytes reaches the disk.

    The file is removed again. If the disk is full or the quota is used up, the free space and the speed are 0.

    Args:
        folder: existing folder.
        name: name of the file, which no other process may use at the same time.
        size: bytes to write.

    Raises:
        OSError: the file cannot be written for another reason.
    """
    free = shutil.disk_usage(folder).free
    path = folder / name
    block = os.urandom(1 << 20)
    try:
        started = time.perf_counter()
        with path.open("wb") as handle:
            for begin in range(0, size, len(block)):
                handle.write(block[: size - begin])
            handle.flush()
            os.fsync(handle.fileno())
        seconds = time.perf_counter() - started
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return DiskState(free_bytes=0, write_mb_per_second=0.0)
    finally:
        path.unlink(missing_ok=True)
    return DiskState(free_bytes=free, write_mb_per_second=size / 1e6 / seconds)
