"""Write the keys of one shard's documents, partitioned by key. Documents with an equal key are in the same partition.

There are three kinds of key. The id of every document serves to number repeated ids. The content hash, and each MinHash
band within a language, serve to find duplicates among the documents that judge kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.config.stages import DedupStage
from bloomery.contracts.part_names import own_part
from data_prep.corpus.columns import fixed_bytes, language_salts
from data_prep.corpus.content_hash import CONTENT_HASH_BYTES
from data_prep.corpus.dedup.prefer import id_words, short_rank, source_rank_of, source_ranks
from data_prep.corpus.measure import key_digest
from data_prep.corpus.numbered_documents import CorpusTables
from data_prep.formats.shard import TableWriter, iterate_batches, read_manifest

IDENTITY, CONTENT = -2, -1
"""Values of the column `table` for ids and contents. For bands, `table` is the number of the band, from 0."""

CHUNK_ROWS = 1 << 16
"""Number of documents whose keys are sorted together. The sort takes about 40 bytes per key. A document has 16 keys
with the default 14 bands."""

SCHEMA = pa.schema(
    [
        ("table", pa.int32()),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
        ("rank", pa.uint64()),
        ("row", pa.int32()),
    ]
)
"""The key of an id or a content is `high` and `low` together. The key of a band is `low` alone; its `high` is half of
the content hash, which identifies exact copies. `rank` is `prefer.short_rank` (smaller is better). For an id, `rank` is
half of the document's content hash. `row` is the document's row in the shard."""

Columns = dict[str, npt.NDArray[Any]]


def scatter_keys(stage: DedupStage, tables: CorpusTables, part: str, output: Path) -> dict[str, Any]:
    """Write the keys of a part's documents and return the manifest. The keys of each chunk are sorted by partition.

    `runs` in the manifest has the number of keys of each partition in each chunk (see `partitioned_tables`).

    Raises:
        InputError: a table of the part is missing or damaged, or an earlier run measured with other parameters.
    """
    _refuse_other_parameters(stage, tables, part)
    earlier = not own_part(part)
    kept = tables.kept(part)
    ranks = source_ranks(stage.priorities)
    columns = ["id", "source", "language", "words", "content_hash", "bands"]
    runs: list[list[int]] = []
    start = 0
    with TableWriter.open(output, SCHEMA) as writer:
        for table in _chunks(tables.path("measures", part), columns):
            keys = _keys(stage, table, kept[start : start + table.num_rows], ranks, earlier=earlier)
            keys["row"] += np.int32(start)
            partition = keys["low"] % np.uint64(stage.dedup.partitions)
            order = np.argsort(partition, kind="stable")
            # Columns are popped one by one, here and in `_keys`, so that a column is not held twice.
            writer.write(pa.record_batch([keys.pop(name)[order] for name in SCHEMA.names], schema=SCHEMA))
            runs.append(np.bincount(partition.astype(np.int64), minlength=stage.dedup.partitions).tolist())
            start += table.num_rows
    inputs = {name: tables.path(name, part) for name in ("measures", "clean" if earlier else "verdicts")}
    return writer.manifest(
        kind="keys",
        inputs={name: read_manifest(path)["file"]["digest"] for name, path in inputs.items()},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"runs": runs},
    )


def _refuse_other_parameters(stage: DedupStage, tables: CorpusTables, part: str) -> None:
    """Raise InputError if an earlier run made its keys with other parameters, because such keys are not comparable."""
    if own_part(part):
        return
    measures = tables.path("measures", part)
    if read_manifest(measures)["counts"].get("keys") != key_digest(stage.dedup.near, stage.seed, stage.unspaced):
        raise InputError(
            "the corpus of the earlier run was measured with another seed, other MinHash parameters or another"
            " version of Bloomery",
            where=str(measures),
            expected="measures with the seed and corpus.dedup.near of this run; run the earlier run again with these"
            " settings, or remove it from corpus.dedup.against",
        )


def _chunks(path: Path, columns: list[str]) -> Iterator[pa.Table]:
    """Yield tables of `CHUNK_ROWS` rows. The last table may be shorter."""
    held: list[pa.RecordBatch] = []
    for batch in iterate_batches(path, columns):
        held.append(batch)
        if sum(one.num_rows for one in held) >= CHUNK_ROWS:
            table = pa.Table.from_batches(held)
            yield table.slice(0, CHUNK_ROWS)
            held = table.slice(CHUNK_ROWS).to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _keys(
    stage: DedupStage,
    table: pa.Table,
    kept: npt.NDArray[np.bool_],
    ranks: dict[str, int],
    *,
    earlier: bool,
) -> Columns:
    """Return all keys of a chunk's documents as arrays [keys], one for each column of `SCHEMA`."""
    ids = id_words(table["id"])
    content = fixed_bytes(table["content_hash"], CONTENT_HASH_BYTES).view("<u8")
    rank = short_rank(source_rank_of(table["source"], ranks, earlier=earlier), table["words"].to_numpy(), ids)
    rows = np.flatnonzero(kept)
    pieces: list[Columns] = []

    def add(number: npt.NDArray[Any] | int, high: Any, low: Any, ranks: Any, at: npt.NDArray[np.int64]) -> None:
        columns = dict(zip(SCHEMA.names, (number, high, low, ranks, at), strict=True))
        pieces.append({
            name: np.broadcast_to(np.asarray(value, SCHEMA.field(name).type.to_pandas_dtype()), at.shape)
            for name, value in columns.items()
        })  # fmt: skip

    if not earlier:
        add(IDENTITY, ids[:, 0], ids[:, 1], content[:, 0], np.arange(table.num_rows))
    if stage.dedup.exact:
        add(CONTENT, content[rows, 1], content[rows, 0], rank[rows], rows)
    if stage.dedup.near.enabled:
        bands = np.asarray(table["bands"].combine_chunks().flatten()).reshape(-1, stage.dedup.near.bands)
        salted = bands ^ language_salts(table["language"].combine_chunks())[:, None]
        for band in range(stage.dedup.near.bands):
            add(band, content[rows, 1], salted[rows, band], rank[rows], rows)
    return {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in SCHEMA.names}
