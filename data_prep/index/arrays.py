"""Write the index's `.npy` arrays atomically and compute their digests.

Arrays are streamed in pieces, so an array may be larger than memory. A thread hashes and writes each piece while the
next piece is computed. The digest therefore needs no second read.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import atomic_path
from bloomery.contracts.index_manifest import ArrayEntry

CHUNK = 1 << 22
"""Number of rows in one piece of an array. A piece takes tens of MB."""
_PENDING = 4
"""Maximum number of pieces that wait to be written."""
_SYNC_BYTES = 1 << 28
"""Bytes after which the file is synced, so that the disk works while pieces are computed and the last sync is short."""


class _Array:
    """A `.npy` file that is being written."""

    def __init__(self, handle: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._handle, self._dtype, self.shape = handle, dtype, shape
        self.rows = self._unsynced = 0
        self._hash = hashlib.blake2b(digest_size=16)
        header = io.BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        self._write(header.getbuffer())

    def add(self, piece: npt.NDArray[Any]) -> None:
        self.rows += len(piece)
        self._write(np.ascontiguousarray(piece, dtype=self._dtype).reshape(-1).view(np.uint8).data)

    def _write(self, data: memoryview) -> None:
        self._hash.update(data)
        self._handle.write(data)  # tofile() would raise an error without errno when the disk is full
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_BYTES:
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._unsynced = 0

    def entry(self, path: str) -> ArrayEntry:
        assert self.rows == self.shape[0], f"{self.rows} rows were written, {self.shape[0]} expected"
        return ArrayEntry(path=path, dtype=str(self._dtype), shape=list(self.shape), digest=self._hash.hexdigest())


def write_array(
    index: Path, path: str, dtype: npt.DTypeLike, shape: tuple[int, ...], chunks: Iterable[npt.NDArray[Any]]
) -> ArrayEntry:
    """Write `chunks`, concatenated along the first axis, to the `.npy` file `index / path`, and return its entry."""
    return write_arrays(index, [(path, dtype, shape)], ((chunk,) for chunk in chunks))[0]


def write_arrays(
    index: Path,
    arrays: Sequence[tuple[str, npt.DTypeLike, tuple[int, ...]]],
    chunks: Iterable[Sequence[npt.NDArray[Any]]],
) -> list[ArrayEntry]:
    """Write several arrays (path, type, shape) in one pass over `chunks`, whose items hold one piece of each array."""
    with ExitStack() as stack:
        temporaries = [stack.enter_context(atomic_path(index / path)) for path, _, _ in arrays]
        with ExitStack() as open_files:
            handles = [open_files.enter_context(temporary.open("wb")) for temporary in temporaries]
            made = [
                _Array(handle, np.dtype(dtype), shape)
                for handle, (_, dtype, shape) in zip(handles, arrays, strict=True)
            ]
            writer = open_files.enter_context(ThreadPoolExecutor(max_workers=1))
            pending: deque[Future[None]] = deque()
            for pieces in chunks:
                for array, piece in zip(made, pieces, strict=True):
                    pending.append(writer.submit(array.add, piece))
                while len(pending) > _PENDING:
                    pending.popleft().result()
            for future in pending:
                future.result()
        return [array.entry(path) for array, (path, _, _) in zip(made, arrays, strict=True)]
