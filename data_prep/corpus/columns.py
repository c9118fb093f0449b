"""Convert Arrow columns to the arrays that the compiled kernel takes. Texts are passed without a copy."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def text_buffers(texts: pa.LargeStringArray) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return (data, offsets int64 [n + 1]) of a text column without nulls.

    Text i is data[offsets[i]:offsets[i + 1]].
    """
    _, offsets, data = texts.buffers()
    if len(texts) == 0:
        return b"", np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return (data if data is not None else b""), bounds


def flags_of(languages: pa.Array, codes: list[str]) -> npt.NDArray[np.uint8]:
    """Return uint8 [n]: 1 where the language is one of `codes`, else 0."""
    member = pc.is_in(languages, value_set=pa.array(codes, pa.string()))
    return np.asarray(member.to_numpy(zero_copy_only=False)).astype(np.uint8)


def language_salts(languages: pa.Array) -> npt.NDArray[np.uint64]:
    """Return uint64 [n]: a number derived from each language. XOR with it keeps hashes of different languages apart."""
    encoded = languages.dictionary_encode()
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in encoded.dictionary.to_pylist()]
    numbers = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
    salts: npt.NDArray[np.uint64] = numbers[np.asarray(encoded.indices)]
    return salts


def fixed_bytes(column: pa.ChunkedArray, width: int) -> npt.NDArray[np.uint8]:
    """Return the values of a fixed-size binary column without nulls as uint8 [n, width]."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.uint8)[chunk.offset * width : (chunk.offset + len(chunk)) * width]
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(chunks or [np.empty(0, np.uint8)]).reshape(-1, width)
