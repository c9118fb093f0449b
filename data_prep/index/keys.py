"""The hash that a document's id is, as a number: what deals documents to training and validation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.errors import InputError

_HEX_DIGITS = 16
_NIBBLE = np.full(256, 255, dtype=np.uint8)
for _digit in range(16):
    _NIBBLE[[ord(f"{_digit:x}"), ord(f"{_digit:X}")]] = _digit


def id_hashes(ids: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """The first 16 hexadecimal digits of each id as a number, uint64 [n]. Raises InputError for other ids."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    ids = ids.cast(pa.large_string())
    offsets = np.frombuffer(ids.buffers()[1], dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    if len(ids) == 0:
        return np.empty(0, dtype=np.uint64)
    if int(np.diff(offsets).min()) < _HEX_DIGITS:
        raise InputError("a document id shorter than 16 characters", expected="32 hexadecimal digits")
    text = np.frombuffer(ids.buffers()[2], dtype=np.uint8)
    value = np.zeros(len(ids), dtype=np.uint64)
    for digit in range(_HEX_DIGITS):
        nibbles = _NIBBLE[text[offsets[:-1] + digit]]
        if nibbles.max() > 15:
            raise InputError("a document id that is not hexadecimal", expected="32 hexadecimal digits")
        value = (value << np.uint64(4)) | nibbles
    return value
