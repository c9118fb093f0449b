"""Compute split keys, which assign documents to training or validation.

A split key is the first 64 bits of an id, as a number.

Deduplication may keep several documents of one cluster. These documents are not similar to each other, but removed
documents connect them. All of them get the hash of the cluster's best document, so that related documents are
all used for training or all for validation.
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
_EXPECTED_ID = (
    "an id of 32 hexadecimal digits for every document of every shard, as the corpus stage writes it. Run that stage "
    "again"
)
_NIBBLE = np.full(256, 255, dtype=np.uint8)
for _digit in range(16):
    _NIBBLE[[ord(f"{_digit:x}"), ord(f"{_digit:X}")]] = _digit


def id_hashes(ids: pa.Array | pa.ChunkedArray, *, where: str | None = None) -> npt.NDArray[np.uint64]:
    """Return the first 16 hexadecimal digits of each id as a number, uint64 [n].

    Raises InputError, with `where` as its place, for other ids.
    """
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    ids = ids.cast(pa.large_string())
    offsets = np.frombuffer(ids.buffers()[1], dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    if len(ids) == 0:
        return np.empty(0, dtype=np.uint64)
    if int(np.diff(offsets).min()) < _HEX_DIGITS:
        raise InputError("a document id is shorter than 16 characters", where=where, expected=_EXPECTED_ID)
    text = np.frombuffer(ids.buffers()[2], dtype=np.uint8)
    value = np.zeros(len(ids), dtype=np.uint64)
    for digit in range(_HEX_DIGITS):
        nibbles = _NIBBLE[text[offsets[:-1] + digit]]
        if nibbles.max() > 15:
            raise InputError("a document id is not hexadecimal", where=where, expected=_EXPECTED_ID)
        value = (value << np.uint64(4)) | nibbles
    return value


def clusters_of(survivors: Sequence[Path], part: str) -> dict[str, str]:
    """Map ids of documents to the id of their cluster's best document, for clusters with several kept documents.

    Args:
        survivors: the tables of kept documents of all partitions of the search for duplicates.
        part: the shard whose documents are mapped.

    Raises:
        InputError: a table is damaged.
    """
    tables = [read_part(path, part) for path in survivors]
    return {row["id"]: row["cluster"] for table in tables for row in table.select(["id", "cluster"]).to_pylist()}


def split_keys(ids: pa.Array, clusters: Mapping[str, str], *, where: str | None = None) -> npt.NDArray[np.uint64]:
    """Return the hash of each document's cluster, or of the document if `clusters` does not name it, as uint64 [n].

    Raises:
        InputError: an id is not a hash. `where` names the shard of the ids.
    """
    if clusters:
        ids = pa.array([clusters.get(identity, identity) for identity in ids.to_pylist()], pa.string())
    return id_hashes(ids, where=where)
