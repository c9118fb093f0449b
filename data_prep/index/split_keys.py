"""Split keys, which assign documents to training or validation: the hash that a document's id is, as a number.

Several documents of one cluster of duplicates may be kept (unlike one another, but joined by removed documents). They
take the hash of the cluster's best document, so that none of them tests what another one taught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.errors import InputError
from data_prep.corpus.numbered_documents import read_part

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


def clusters_of(survivors: Sequence[Path], part: str) -> dict[str, str]:
    """Id -> id of its cluster's best document, for a part's documents that stay with others of their cluster.

    `survivors`: the tables of all partitions of the search for duplicates. Raises InputError for a damaged one.
    """
    tables = [read_part(path, part) for path in survivors]
    return {row["id"]: row["cluster"] for table in tables for row in table.select(["id", "cluster"]).to_pylist()}


def split_keys(ids: pa.Array, clusters: Mapping[str, str]) -> npt.NDArray[np.uint64]:
    """uint64 [n]: the hash of each document's cluster, or of itself. Raises InputError for ids that are no hash."""
    if clusters:
        ids = pa.array([clusters.get(identity, identity) for identity in ids.to_pylist()], pa.string())
    return id_hashes(ids)
