"""Connect: join all candidate pairs into connected components, and assign each component to one partition.

The decision about a document depends only on its component, so the components can be resolved separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.config.stages import DedupStage
from data_prep.corpus.dedup.connected_components import MOST_FILES, Buckets, Pairs, bucket_count, by_hash, components
from data_prep.corpus.numbered_documents import NumberedDocuments
from data_prep.formats.shard import TableWriter, iterate_batches, read_manifest

CLUSTER_SCHEMA = pa.schema([("root", pa.int64()), ("best", pa.int64()), ("other", pa.int64()), ("exact", pa.bool_())])
"""One row per candidate pair, without repetitions. `root` is the smallest node of the pair's component."""
INVOLVED_SCHEMA = pa.schema([("row", pa.int64()), ("root", pa.int64()), ("shingles", pa.bool_())])
"""One row per document in a pair, sorted by part. `shingles` is true if the document may be compared with another one:
it is in a near pair, and it is not the worse document of an exact pair."""

_NEAR, _COPY = 1, 2


def connect(
    stage: DedupStage, catalogue: NumberedDocuments, candidates: list[Path], clusters: Path, involved: Path
) -> dict[str, Any]:
    """Write the pairs of all components, sorted by partition, and the documents in the pairs.

    Return the manifest of the pairs.

    Args:
        stage: settings of the stage; `memory_bytes` limits the memory.
        catalogue: the numbered documents of the corpus.
        candidates: tables of candidate pairs, one per partition.
        clusters: table of `CLUSTER_SCHEMA` to write. The `spans` of its manifest give the rows of each partition.
        involved: table of `INVOLVED_SCHEMA` to write. The `spans` of its manifest give the rows of each part.

    Raises:
        InputError: a table of candidate pairs is missing or damaged.
    """
    partitions, memory = stage.dedup.partitions, stage.dedup.memory_bytes
    if len(candidates) != partitions:
        raise InputError(
            f"there are {len(candidates)} tables of candidate pairs",
            where=str(clusters.parent),
            expected=f"{partitions} tables, one per partition of the duplicate search (corpus.dedup.partitions)",
        )
    manifests = [read_manifest(path) for path in candidates]
    facts: dict[str, Any] = {
        "inputs": {path.stem: found["file"]["digest"] for path, found in zip(candidates, manifests, strict=True)},
        "parameters": digest_json(stage.model_dump(mode="json")),
    }
    count = sum(found["rows"] for found in manifests)
    folder = clusters.parent
    buckets = bucket_count(count, 4, memory)
    # If the pairs of a partition do not fit into memory, they are split into several files, read one after another.
    files = min(-(-buckets // partitions), max(1, MOST_FILES // partitions))
    with (
        Buckets(partitions * files, 4, folder) as partitioned,
        Buckets(buckets, 3, folder) as documents,
    ):
        for rows in _with_roots(candidates, count, buckets, memory, folder):
            partitioned.distribute(rows)
            other, root, best, exact = rows.T[[2, 0, 1, 3]]
            flags = np.concatenate([np.where(exact, 0, _NEAR), np.where(exact, _COPY, _NEAR)])
            ends = np.stack([np.concatenate([best, other]), np.concatenate([root, root]), flags], axis=1)
            # The buckets are consecutive ranges of nodes, so that reading them in order gives the documents in order.
            documents.add(ends, ends[:, 0] * buckets // max(catalogue.documents, 1))
        _write_involved(documents, catalogue, involved, facts)
        return _write_clusters(partitioned, partitions, files, clusters, facts)


def _with_roots(candidates: list[Path], count: int, buckets: int, memory: int, folder: Path) -> Iterator[Pairs]:
    """Yield rows (root, best, other, exact), each pair once. A pair is exact if any partition found it to be exact."""
    with Buckets(buckets, 2, folder) as labels, Buckets(buckets, 3, folder) as pairs:
        for rows in components(_edges(candidates), count, memory, folder):
            labels.distribute(rows)
        for batch in _batches(candidates):
            pairs.distribute(batch[:, [1, 0, 2]])
        for known, rows in zip(labels.read(), pairs.read(), strict=True):
            if not len(rows):
                continue
            known = known[np.argsort(known[:, 0])]
            # Among equal pairs, the exact pair is sorted first, and only the first pair is used.
            rows = rows[np.lexsort((-rows[:, 2], rows[:, 1], rows[:, 0]))]
            new = np.ones(len(rows), dtype=np.bool_)
            new[1:] = np.any(rows[1:, :2] != rows[:-1, :2], axis=1)
            rows = rows[new]
            place = np.minimum(np.searchsorted(known[:, 0], rows[:, 0]), max(len(known) - 1, 0))
            root = rows[:, 0].copy()  # a node without a label is the smallest node of its component
            if len(known):
                hung = known[place, 0] == rows[:, 0]
                root[hung] = known[place[hung], 1]
            yield np.stack([root, rows[:, 1], rows[:, 0], rows[:, 2]], axis=1)


def _batches(candidates: list[Path]) -> Iterator[Pairs]:
    """Yield rows (best, other, exact) of all candidate pairs."""
    for path in candidates:
        for batch in iterate_batches(path, rows=1 << 20):
            columns = [batch["best"].to_numpy(), batch["other"].to_numpy()]
            yield np.stack([*columns, batch["exact"].to_numpy(zero_copy_only=False).astype(np.int64)], axis=1)


def _edges(candidates: list[Path]) -> Iterator[Pairs]:
    for batch in _batches(candidates):
        yield batch[:, :2]


def _write_involved(documents: Buckets, catalogue: NumberedDocuments, output: Path, facts: dict[str, Any]) -> None:
    spans: dict[str, list[int]] = {}
    with TableWriter.open(output, INVOLVED_SCHEMA) as writer:
        for rows in documents.read():
            if not len(rows):
                continue
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
            starts = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
            nodes, roots = rows[starts, 0], rows[starts, 1]
            flags = np.bitwise_or.reduceat(rows[:, 2], starts)
            for part, (first, end) in catalogue.spans(nodes).items():
                # The documents of a part may continue in the next bucket.
                spans.setdefault(part, [writer.rows + first, 0])[1] = writer.rows + end
                nodes[first:end] -= catalogue.start(part)
            writer.write(pa.record_batch([nodes, roots, flags == _NEAR], schema=INVOLVED_SCHEMA))
    writer.manifest(kind="involved", counts={"spans": spans}, **facts)


def _write_clusters(
    partitioned: Buckets, partitions: int, files: int, output: Path, facts: dict[str, Any]
) -> dict[str, Any]:
    spans = []
    found = 0
    with TableWriter.open(output, CLUSTER_SCHEMA) as writer:
        for partition in range(partitions):
            start = writer.rows
            for file in range(files):
                rows = partitioned.bucket(partition + file * partitions)
                rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
                found += len(np.unique(rows[:, 0]))
                columns = [*rows.T[:3], rows[:, 3].astype(np.bool_)]
                writer.write(pa.record_batch(columns, schema=CLUSTER_SCHEMA))
            spans.append([start, writer.rows])
    say(f"there are {writer.rows} pairs of possible duplicates in {found} connected groups")
    return writer.manifest(kind="clusters", counts={"components": found, "spans": spans}, **facts)


def partition_of(roots: Pairs, partitions: int) -> Pairs:
    """Return the partition that resolves each component, given the components' roots."""
    return by_hash(roots, partitions)
