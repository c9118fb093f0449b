"""Writes the index's `.npy` arrays: streamed, so that an array may be larger than memory; atomic; with digests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import atomic_path
from bloomery.base.digest import digest_file
from bloomery.contracts.index import ArrayEntry

CHUNK = 1 << 22
"""Rows handled at once where arrays are made in pieces: tens of MB."""


def write_array(
    index: Path, path: str, dtype: npt.DTypeLike, shape: tuple[int, ...], chunks: Iterable[npt.NDArray[Any]]
) -> ArrayEntry:
    """Write `chunks`, laid end to end along the first axis, as one `.npy` at `index / path`; returns its entry."""
    wanted = np.dtype(dtype)
    target = index / path
    rows = 0
    with atomic_path(target) as temporary:
        with temporary.open("wb") as handle:
            header = {"descr": np.lib.format.dtype_to_descr(wanted), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(handle, header)
            for chunk in chunks:
                # Not tofile(): its error at a full disk has no errno.
                handle.write(np.ascontiguousarray(chunk, dtype=wanted).data)
                rows += len(chunk)
        assert rows == shape[0], f"{rows} rows written, {shape[0]} promised"
        digest = digest_file(temporary)
    return ArrayEntry(path=path, dtype=str(wanted), shape=list(shape), digest=digest)
