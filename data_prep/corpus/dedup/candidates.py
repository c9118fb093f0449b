"""Find the candidate pairs of one partition: documents with equal content, or with an equal MinHash band and language.

Documents are grouped by key. In each group, the best document (the first by rank) is paired with every other document.
The best document is usually kept, so most pairs contain a kept document. Documents with an equal id also get their new
ids here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json, occurrence_id
from bloomery.base.progress import Progress
from bloomery.config.stages import DedupStage
from data_prep.corpus.dedup.connected_components import unique_rows
from data_prep.corpus.dedup.prefer import from_earlier_run
from data_prep.corpus.dedup.scatter_keys import CONTENT, IDENTITY, SCHEMA, Columns
from data_prep.corpus.numbered_documents import Nodes, NumberedDocuments
from data_prep.corpus.partitioned_tables import count_records, read_runs
from data_prep.formats.shard import TableWriter, read_manifest, write_table

PAIR_SCHEMA = pa.schema([("best", pa.int64()), ("other", pa.int64()), ("exact", pa.bool_())])
REPEATED_SCHEMA = pa.schema([("part", pa.string()), ("row", pa.int64()), ("id", pa.string())])
"""One row for each second or later document with the same id. `id` is its new id."""

_EARLIER_CANDIDATES = 4
"""Largest number of documents of earlier runs that a document is compared with per key. Further documents usually share
the key only by chance."""

BYTES_PER_KEY = 112
"""Bytes of memory per key during the sort: its 36 bytes three times (read, concatenated, sorted) and the sort index."""


def find_candidates(
    stage: DedupStage, catalogue: NumberedDocuments, partition: int, keys: Path, output: Path, repeated: Path
) -> dict[str, Any]:
    """Write the candidate pairs and the repeated ids of a partition; return the manifest of the pairs.

    Args:
        stage: settings of the stage; `memory_bytes` limits the memory of a pass.
        catalogue: the numbered documents of the corpus.
        partition: number of the partition.
        keys: folder of the tables of keys.
        output: table of `PAIR_SCHEMA` to write. `best` and `other` are nodes.
        repeated: table of `REPEATED_SCHEMA` to write, sorted by part and row. The `spans` of its manifest give the
            rows of each part.

    Raises:
        InputError: a table of keys is missing or damaged.
    """
    paths = [keys / f"{part}.parquet" for part in catalogue.parts]
    count = sum(count_records(path, partition) for path in paths)
    passes = max(1, -(-count * BYTES_PER_KEY // stage.dedup.memory_bytes))
    counts = {"keys": count, "passes": passes, "exact": 0, "near": 0}
    again: list[tuple[int, str]] = []
    with (
        TableWriter.open(output, PAIR_SCHEMA) as writer,
        Progress(f"find possible duplicates in partition {partition}", passes, unit="passes") as bar,
    ):
        for number in range(passes):
            found = _in_order(_keys_of(paths, catalogue, partition, stage.dedup.partitions, number, passes))
            again += _repeated(found)
            exact = found["table"] == CONTENT
            for chosen, kind in ((exact, "exact"), (found["table"] > CONTENT, "near")):
                mine = {name: column[chosen] for name, column in found.items()}
                # With `dedup.exact`, copies are already paired by their content, so their bands need no pairs.
                pairs = _pairs(mine, copies=kind == "exact" or not stage.dedup.exact)
                counts[kind] += len(pairs)
                columns = [pairs[:, 0], pairs[:, 1], np.full(len(pairs), kind == "exact")]
                writer.write(pa.record_batch(columns, schema=PAIR_SCHEMA))
            bar.advance()
    digests = [read_manifest(path)["file"]["digest"] for path in paths]
    facts: dict[str, Any] = {
        "inputs": {"keys": digest_json(digests)},
        "parameters": digest_json([stage.model_dump(mode="json"), partition]),
    }
    table, spans = _repeated_table(again, catalogue)
    write_table(repeated, table, kind="repeated", counts={"spans": spans}, **facts)
    return writer.manifest(kind="candidates", counts=counts | {"repeated_ids": table.num_rows}, **facts)


def _keys_of(
    paths: list[Path], catalogue: NumberedDocuments, partition: int, partitions: int, number: int, passes: int
) -> Iterator[Columns]:
    """Yield the keys of one pass. Their column `row` contains nodes instead of rows of the shard."""
    for path, start in zip(paths, catalogue.bounds.tolist(), strict=False):
        for table in read_runs(path, partition, SCHEMA.names):
            keys = {name: table[name].to_numpy() for name in SCHEMA.names}
            # The remainder of `low` is the partition, so the quotient selects the pass.
            mine = keys["low"] // np.uint64(partitions) % np.uint64(passes) == number
            chosen = {name: column[mine] for name, column in keys.items()}
            yield chosen | {"row": chosen["row"].astype(np.int64) + start}


def _in_order(pieces: Iterator[Columns]) -> Columns:
    """Return all keys of a pass sorted by key, then from the best document to the worst. `row` is the node."""
    held = list(pieces)
    empty = {name: np.empty(0, SCHEMA.field(name).type.to_pandas_dtype()) for name in SCHEMA.names}
    keys = {name: np.concatenate([empty[name], *(piece.pop(name) for piece in held)]) for name in SCHEMA.names}
    order = np.lexsort((keys["row"], keys["rank"], keys["low"], _high(keys), keys["table"]))
    return {name: keys.pop(name)[order] for name in SCHEMA.names}


def _firsts(keys: Columns) -> npt.NDArray[np.int64]:
    """Return int64 [n]: for each of the sorted keys, the position of the first key in its group."""
    count = len(keys["row"])
    new = np.ones(count, dtype=np.bool_)
    new[1:] = False
    for column in (keys["table"], _high(keys), keys["low"]):
        new[1:] |= column[1:] != column[:-1]
    return np.maximum.accumulate(np.where(new, np.arange(count), 0))


def _high(keys: Columns) -> npt.NDArray[np.uint64]:
    """Return the high half of each key. The key of a band has only a low half, so its high half is 0."""
    return np.where(keys["table"] > CONTENT, np.uint64(0), keys["high"])


def _pairs(keys: Columns, *, copies: bool) -> npt.NDArray[np.int64]:
    """Return int64 [pairs, 2]: the sorted, unique pairs (best, other) of documents with equal keys.

    Documents of earlier runs are not paired with one another. All of them stay kept, so a document of this run may
    duplicate any of them and is paired with several. If `copies` is false, pairs with equal content are left out.
    """
    count = len(keys["row"])
    if not count:
        return np.empty((0, 2), np.int64)
    first = _firsts(keys)
    earlier = from_earlier_run(keys["rank"])
    others = np.flatnonzero((first != np.arange(count)) & ~earlier)
    best = [first[others]]
    for step in range(1, _EARLIER_CANDIDATES):
        candidate = np.minimum(first[others] + step, count - 1)
        best.append(np.where(earlier[candidate] & (first[candidate] == first[others]), candidate, first[others]))
    ends = np.stack([np.concatenate(best), np.tile(others, _EARLIER_CANDIDATES)], axis=1)
    if not copies:
        ends = ends[keys["high"][ends[:, 0]] != keys["high"][ends[:, 1]]]
    return unique_rows(keys["row"][ends])


def _repeated(keys: Columns) -> list[tuple[int, str]]:
    """Return (node, new id) of all but the first document of each id.

    Documents of one id are numbered by the order of their content hashes, then by the order of the corpus.
    """
    mine = keys["table"] == IDENTITY
    ids = {name: column[mine] for name, column in keys.items()}
    if not mine.any():
        return []
    first = _firsts(ids)
    places = np.flatnonzero(first != np.arange(len(first)))
    return [
        (node, occurrence_id(f"{high:016x}{low:016x}", occurrence + 1))
        for node, high, low, occurrence in zip(
            ids["row"][places].tolist(),
            ids["high"][places].tolist(),
            ids["low"][places].tolist(),
            (places - first[places]).tolist(),
            strict=True,
        )
    ]


def _repeated_table(
    found: list[tuple[int, str]], catalogue: NumberedDocuments
) -> tuple[pa.Table, dict[str, list[int]]]:
    found = sorted(found)
    nodes: Nodes = np.array([node for node, _ in found], np.int64)
    spans = catalogue.spans(nodes)
    parts = [part for part, (start, end) in spans.items() for _ in range(start, end)]
    rows = nodes - np.repeat([catalogue.start(part) for part in spans], [end - start for start, end in spans.values()])
    columns = [parts, rows, [identity for _, identity in found]]
    return pa.table(dict(zip(REPEATED_SCHEMA.names, columns, strict=True)), schema=REPEATED_SCHEMA), spans
