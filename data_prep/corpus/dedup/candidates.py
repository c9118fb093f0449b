"""Candidate pairs of one hash partition: documents with equal content, or with an equal MinHash band in one language.

Documents are grouped by key; each group gives the pairs (best document, other document). The best document is the one
that would be kept, so that most pairs are with a document that stays. Partitions are disjoint in keys and independent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.progress import track
from bloomery.config.stages import DedupStage
from bloomery.contracts.shard import read_manifest, read_table, write_table
from data_prep.corpus.catalogue import Catalogue, Nodes
from data_prep.corpus.columns import fixed_bytes
from data_prep.corpus.dedup.rank import ID_BYTES, ranks
from data_prep.corpus.measure import CONTENT_HASH_BYTES

Hashes = npt.NDArray[np.uint64]
_SCHEMA = pa.schema([("best", pa.int64()), ("other", pa.int64()), ("exact", pa.bool_())])


class _Keys(NamedTuple):
    """Keys of one partition: `high`, `low` uint64 [n], `table` int32 [n] (which band of which language), nodes [n]."""

    high: Hashes
    low: Hashes
    table: npt.NDArray[np.int32]
    nodes: Nodes


def find_candidates(stage: DedupStage, catalogue: Catalogue, partition: int, output: Path) -> dict[str, Any]:
    """Write the candidate pairs of a partition: `best`, `other` (node numbers), `exact`; returns the manifest.

    Raises:
        InputError: a table of the corpus is missing, damaged or of another number of rows.
    """
    exact_keys: list[_Keys] = []
    near_keys: list[_Keys] = []
    languages: dict[str, int] = {}
    identities: list[npt.NDArray[np.uint8]] = [np.empty((0, ID_BYTES), np.uint8)]
    for number, part in enumerate(track(catalogue.parts, f"keys of partition {partition}", unit="shards")):
        kept = np.flatnonzero(catalogue.kept(part))
        table = read_table(catalogue.path("measures", part), ["id", "language", "content_hash", "bands"])
        identities.append(_identities(table["id"], partition, stage.dedup.partitions))
        table = table.take(pa.array(kept)).combine_chunks()
        nodes = kept + catalogue.bounds[number]
        if stage.dedup.exact:
            exact_keys.append(_content_keys(table, nodes, partition, stage.dedup.partitions))
        if stage.dedup.near.enabled:
            near_keys.append(_band_keys(table, nodes, languages, partition, stage))
    pairs = [_pairs(found, catalogue, stage.priorities) for found in (_joined(exact_keys), _joined(near_keys))]
    exact = np.repeat([True, False], [len(pairs[0]), len(pairs[1])])
    best, other = np.concatenate(pairs).T
    order = np.lexsort((other, best, ~exact))
    table = pa.table({"best": best[order], "other": other[order], "exact": exact[order]}, schema=_SCHEMA)
    inputs = {
        f"{part}/{name}": read_manifest(catalogue.path(name, part))["file"]["digest"]
        for part in catalogue.parts
        for name in ("measures", "verdicts")
    }
    return write_table(
        output,
        table,
        kind="candidates",
        inputs={"measures and verdicts": digest_json(inputs)},
        parameters=digest_json([stage.model_dump(mode="json"), partition]),
        counts={"exact": len(pairs[0]), "near": len(pairs[1]), "repeated_ids": _repeats(np.concatenate(identities))},
    )


def _identities(ids: pa.ChunkedArray, partition: int, partitions: int) -> npt.NDArray[np.uint8]:
    """uint8 [n, 16]: the ids of this partition, from their hexadecimal digits."""
    digits = fixed_bytes(ids.cast(pa.binary()).cast(pa.binary(2 * ID_BYTES)), 2 * ID_BYTES)
    nibbles = (digits & 15) + 9 * (digits >> 6)
    values = nibbles[:, ::2] << 4 | nibbles[:, 1::2]
    mine: npt.NDArray[np.uint8] = values[values.view("<u8")[:, 0] % np.uint64(partitions) == partition]
    return mine


def _repeats(identities: npt.NDArray[np.uint8]) -> int:
    """Documents whose id an earlier one has. Ingest makes ids unique within a part; only here all parts are seen."""
    high, low = np.ascontiguousarray(identities).view("<u8").T
    order = np.lexsort((low, high))
    return int(np.sum((high[order][1:] == high[order][:-1]) & (low[order][1:] == low[order][:-1])))


def _content_keys(table: pa.Table, nodes: Nodes, partition: int, partitions: int) -> _Keys:
    words = fixed_bytes(table["content_hash"], CONTENT_HASH_BYTES).view("<u8")
    mine = words[:, 0] % np.uint64(partitions) == partition
    return _Keys(words[mine, 1], words[mine, 0], np.zeros(int(mine.sum()), np.int32), nodes[mine])


def _band_keys(table: pa.Table, nodes: Nodes, languages: dict[str, int], partition: int, stage: DedupStage) -> _Keys:
    bands = stage.dedup.near.bands
    column = table["bands"].combine_chunks()
    hashes = np.asarray(column.flatten()).reshape(-1, bands)
    encoded = table["language"].combine_chunks().dictionary_encode()
    numbers = [languages.setdefault(name, len(languages)) for name in encoded.dictionary.to_pylist()]
    language = np.array(numbers, np.int32)[np.asarray(encoded.indices)] if len(encoded) else np.empty(0, np.int32)
    rows, band = np.nonzero(hashes % np.uint64(stage.dedup.partitions) == partition)
    return _Keys(
        np.zeros(len(rows), np.uint64),
        hashes[rows, band],
        (language[rows] * bands + band).astype(np.int32),
        nodes[rows],
    )


def _joined(keys: list[_Keys]) -> _Keys:
    if not keys:
        return _Keys(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int64))
    high, low, table, nodes = zip(*keys, strict=True)
    return _Keys(np.concatenate(high), np.concatenate(low), np.concatenate(table), np.concatenate(nodes))


def _pairs(keys: _Keys, catalogue: Catalogue, priorities: dict[str, int]) -> npt.NDArray[np.int64]:
    """int64 [pairs, 2] (best, other) of documents with equal keys, unique, sorted."""
    order = np.lexsort((keys.low, keys.high, keys.table))
    keys = _Keys(keys.high[order], keys.low[order], keys.table[order], keys.nodes[order])
    same = (keys.low[1:] == keys.low[:-1]) & (keys.high[1:] == keys.high[:-1]) & (keys.table[1:] == keys.table[:-1])
    in_group = np.zeros(len(keys.nodes), dtype=np.bool_)
    in_group[1:] |= same
    in_group[:-1] |= same
    if not in_group.any():
        return np.empty((0, 2), np.int64)
    group = np.cumsum(np.concatenate([[True], ~same]))[in_group]
    nodes = keys.nodes[in_group]
    involved, place = np.unique(nodes, return_inverse=True)
    # Only documents that share a key are ranked: a small part of the corpus.
    rank = ranks(catalogue, involved, priorities)[place]
    order = np.lexsort((rank, group))
    group, nodes = group[order], nodes[order]
    first = np.concatenate([[True], group[1:] != group[:-1]])
    best = nodes[np.maximum.accumulate(np.where(first, np.arange(len(nodes)), 0))]
    return np.unique(np.stack([best[~first], nodes[~first]], axis=1), axis=0)
