"""Resolve: decide which documents of a partition's components are removed, and which kept document each duplicates.

Exact duplicates: the best document of each content is kept. Near duplicates: documents are visited from best to worst.
A document is removed if its Jaccard similarity to an already kept candidate is at least `min_jaccard`. So every removed
document is similar to the kept document that it names. In a chain A ~ B ~ C, C is kept if it is not similar to A. This
greedy order is computed in vectorised rounds.

Without `near.verify`, only the best document of a component is kept, even if a chain joins dissimilar documents.

A cluster is a set of documents joined by similarity, perhaps through a removed document. If several documents of a
cluster are kept, they are listed in a table of survivors, so that they are not split between training and validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import DedupStage
from data_prep.corpus import _text
from data_prep.corpus.dedup.connected_components import mix, unique_rows
from data_prep.corpus.dedup.members import SCHEMA as MEMBER_SCHEMA
from data_prep.corpus.dedup.prefer import best_first, id_words
from data_prep.corpus.numbered_documents import NumberedDocuments
from data_prep.formats.shard import check_columns, iterate_span, read_manifest, write_table

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("duplicate_of", pa.string()),
        ("duplicate_of_part", pa.string()),
        ("kind", pa.string()),
        ("similarity", pa.float64()),
        ("cluster_size", pa.int64()),
    ]
)
"""One row per removed document. `duplicate_of` is the id of the kept document, `duplicate_of_part` its part.
`similarity` is null if the two documents were not compared. `cluster_size` counts the kept document and all of its
duplicates."""

SURVIVOR_SCHEMA = pa.schema([("part", pa.string()), ("id", pa.string()), ("cluster", pa.string())])
"""One row per kept document whose cluster has another kept document. `cluster` is the id of the best of these
documents."""

_BYTES_PER_MEMBER, _BYTES_PER_PAIR = 256, 128
"""Bytes of memory per document, without its shingles, and per pair."""


Chosen = Callable[[Ints], Bools]
"""A function that takes roots of components and returns which components belong to the current pass."""


class _Edges(NamedTuple):
    """Pairs of similar documents, as positions in a pass.

    The documents of a pass are sorted from best to worst, so `better` is less than `worse`.
    """

    better: Ints
    worse: Ints
    similarity: npt.NDArray[np.float64]


class _Decision(NamedTuple):
    """Decisions about the documents of a pass. Each array has one entry per document; its integers are positions."""

    duplicate_of: Ints
    """Kept document that each document duplicates; its own position if it is kept."""
    similarity: npt.NDArray[np.float64]
    """Similarity to the document in `duplicate_of`; NaN if the two were not compared."""
    same: Ints
    """Best document with the same content as each document."""
    cluster: Ints
    """Best document in the cluster of each document."""
    compared: int
    """Number of candidate pairs that were compared."""


class _Members(NamedTuple):
    """Documents of the components of a pass, from best to worst."""

    node: Ints
    identity: npt.NDArray[np.object_]
    language: Ints
    earlier: Bools
    row: Ints
    """Number r of each document in the arrays below: its shingles are `shingles[bounds[r]:bounds[r + 1]]`."""
    shingles: npt.NDArray[np.uint64]
    bounds: Ints

    def jaccard(self, pairs: Ints) -> npt.NDArray[np.float64]:
        """Return the similarity of each pair [n, 2]: shared shingles divided by all shingles of the two documents."""
        return _text.jaccard(self.shingles, self.bounds, self.row[pairs[:, 0]], self.row[pairs[:, 1]])


def greedy(count: int, edges: _Edges) -> tuple[Bools, Ints]:
    """Visit documents from best (0) to worst, and remove each one that has a kept better neighbour.

    Returns:
        kept, bool [count], and edge, int64 [count]: the number of the edge from a removed document to its best kept
        neighbour, or -1 if the document is kept.
    """
    undecided, kept = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    live = np.arange(len(edges.better))
    while undecided.any():
        better, worse = edges.better[live], edges.worse[live]
        waits = np.zeros(count, dtype=np.bool_)
        waits[worse[undecided[better]]] = True
        kept |= undecided & ~waits
        undecided &= waits
        undecided[worse[kept[better]]] = False
        live = live[undecided[worse]]
    chosen = np.full(count, -1, dtype=np.int64)
    usable = np.flatnonzero(kept[edges.better] & ~kept[edges.worse])
    usable = usable[np.lexsort((edges.better[usable], edges.worse[usable]))]
    worse, first = np.unique(edges.worse[usable], return_index=True)
    chosen[worse] = usable[first]
    return kept, chosen


def resolve(
    stage: DedupStage,
    catalogue: NumberedDocuments,
    partition: int,
    clusters: Path,
    members: Path,
    output: Path,
    survivors: Path,
) -> dict[str, Any]:
    """Decide the duplicates of a partition, write the removed documents and the survivors, and return the manifest.

    Args:
        stage: settings of the stage; `memory_bytes` limits the memory of a pass, unless one component is larger.
        catalogue: the numbered documents of the corpus.
        partition: number of the partition.
        clusters: table of the pairs of all components.
        members: folder of the tables of members.
        output: table of `SCHEMA` to write, sorted by part and row. The `spans` of its manifest give each part's rows.
        survivors: table of `SURVIVOR_SCHEMA` to write, sorted by part and id, with `spans` in its manifest too.

    Raises:
        InputError: a table is missing, damaged, or from an earlier version with other columns.
    """
    paths = [members / f"{part}.parquet" for part in catalogue.parts]
    facts = [_of_partition(path, partition) for path in paths]
    first, end = read_manifest(clusters)["counts"]["spans"][partition]
    # Shingles are held twice: as read, and concatenated.
    size = sum(2 * shingles + _BYTES_PER_MEMBER * (stop - start) for (start, stop), shingles in facts)
    size += _BYTES_PER_PAIR * (end - first)
    passes = max(1, -(-size // stage.dedup.memory_bytes))
    tables, kin = [SCHEMA.empty_table()], [SURVIVOR_SCHEMA.empty_table()]
    compared = 0
    with Progress(f"resolve duplicates in partition {partition}", passes, unit="passes") as bar:
        for number in range(passes):

            def mine(roots: Ints, number: int = number) -> Bools:
                chosen: Bools = mix(roots) // np.uint64(stage.dedup.partitions) % np.uint64(passes) == number
                return chosen

            found = _members(
                zip(paths, [span for span, _ in facts], catalogue.bounds.tolist(), strict=False),
                mine,
            )
            pairs = _pairs(clusters, (first, end), mine)
            decision = _decide(stage, found, pairs)
            compared += decision.compared
            tables.append(_removed(decision, found, catalogue))
            kin.append(_survivors(decision, found, catalogue))
            bar.advance()
    table = pa.concat_tables(tables).sort_by([("part", "ascending"), ("row", "ascending")])
    kinds = {name: int(np.sum(table["kind"].to_numpy() == name)) for name in ("exact", "near")}
    origin: dict[str, Any] = {
        "inputs": {"clusters": read_manifest(clusters)["file"]["digest"]}
        | {"members": digest_json([read_manifest(path)["file"]["digest"] for path in paths])},
        "parameters": digest_json([stage.model_dump(mode="json"), partition]),
    }
    together = pa.concat_tables(kin).sort_by([("part", "ascending"), ("id", "ascending")])
    write_table(survivors, together, kind="survivors", counts={"spans": _spans(together)}, **origin)
    return write_table(
        output,
        table,
        kind="duplicates",
        **origin,
        counts=kinds | {"compared": compared, "passes": passes, "spans": _spans(table)},
    )


def _of_partition(members: Path, partition: int) -> tuple[list[int], int]:
    """Return the first row and the end of a partition in the table `members`, and the bytes of its shingles."""
    counts = read_manifest(members)["counts"]
    return counts["spans"][partition], counts["shingle_bytes"][partition]


def _members(spans: Iterable[tuple[Path, list[int], int]], mine: Chosen) -> _Members:
    """Return the members of a pass's components from all shards.

    `spans` has, for each shard, its table, the partition's rows in this table, and the node of the shard's first row.
    """
    held = []
    nodes = []
    for path, (start, end), first in spans:
        for table in iterate_span(path, start, end):
            check_columns(path, table.column_names, MEMBER_SCHEMA, delete="corpus/members/ of this run")
            chosen = table.filter(pa.array(mine(table["root"].to_numpy())))
            if chosen.num_rows:
                held.append(chosen)
                nodes.append(chosen["row"].to_numpy() + first)
    if not held:
        none = np.empty(0, np.int64)
        return _Members(
            none, none.astype(object), none, none.astype(np.bool_), none, none.astype(np.uint64), np.zeros(1, np.int64)
        )
    table = pa.concat_tables(held)
    order = best_first(table["source_rank"].to_numpy(), table["words"].to_numpy(), id_words(table["id"]))
    _, offsets, data = table["shingles"].combine_chunks().buffers()
    language = np.asarray(table["language"].combine_chunks().dictionary_encode().indices).astype(np.int64)
    return _Members(
        np.concatenate(nodes)[order],
        np.array(table["id"].to_pylist(), dtype=object)[order],
        language[order],
        table["source_rank"].to_numpy()[order] == 0,
        order,
        np.frombuffer(data, np.uint64) if data is not None else np.empty(0, np.uint64),
        np.frombuffer(offsets, np.int64)[: table.num_rows + 1] // 8,
    )


def _pairs(clusters: Path, span: tuple[int, int], mine: Chosen) -> Ints:
    """Return the rows (best, other, exact) of a pass's components. `best` and `other` are nodes."""
    held = [np.empty((0, 3), np.int64)]
    for table in iterate_span(clusters, *span):
        chosen = mine(table["root"].to_numpy())
        exact = table["exact"].to_numpy(zero_copy_only=False).astype(np.int64)
        held.append(np.stack([table["best"].to_numpy(), table["other"].to_numpy(), exact], axis=1)[chosen])
    return np.concatenate(held)


def _decide(stage: DedupStage, members: _Members, pairs: Ints) -> _Decision:
    """Decide which members are kept and which are duplicates."""
    count = len(members.node)
    by_node = np.argsort(members.node)
    places = by_node[np.searchsorted(members.node, pairs[:, :2], sorter=by_node)]
    exact = pairs[:, 2] == 1
    same = np.arange(count)
    # If several documents of earlier runs have the same content, the best one is used.
    np.minimum.at(same, places[exact, 1], places[exact, 0])
    near = np.sort(same[places[~exact]], axis=1)
    near = near[(near[:, 0] != near[:, 1]) & (members.language[near[:, 0]] == members.language[near[:, 1]])]
    near = unique_rows(near)
    if not stage.dedup.near.verify:
        duplicate_of = _best_of_component(count, near)
        duplicate_of = duplicate_of[same]
        return _Decision(duplicate_of, np.where(duplicate_of == same, 1.0, np.nan), same, duplicate_of, 0)
    verified = _verify(near, members, stage.dedup.near.min_jaccard)
    _, chosen = greedy(count, verified)
    duplicate_of, similarity = same.copy(), np.ones(count)
    moved = np.flatnonzero(chosen >= 0)
    duplicate_of[moved] = verified.better[chosen[moved]]
    similarity[moved] = verified.similarity[chosen[moved]]
    # An exact copy of a near duplicate duplicates the same kept document, even if its language label differs.
    cluster = _best_of_component(count, np.stack([verified.better, verified.worse], axis=1))
    return _Decision(duplicate_of[same], similarity[same], same, cluster[same], len(near))


def _best_of_component(count: int, near: Ints) -> Ints:
    """Return int64 [count]: the best document in the component of each document. `near` are the edges.

    The smallest position is passed along the edges until nothing changes.
    """
    best = np.arange(count)
    while True:
        before = best.copy()
        for one, other in ((0, 1), (1, 0)):
            np.minimum.at(best, near[:, one], best[near[:, other]])
        best = best[best]
        if np.array_equal(best, before):
            return best


def _verify(pairs: Ints, members: _Members, min_jaccard: float) -> _Edges:
    """Compare the candidates, and further pairs found through them; return the pairs that are similar.

    A document that is similar to a removed document may also be similar to the document that was kept in its place. So
    this pair is compared too.
    """
    count = len(members.node)
    tested = np.empty(0, dtype=np.int64)
    edges = _Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    while len(pairs):
        tested = np.union1d(tested, pairs[:, 0] * count + pairs[:, 1])
        similarity = members.jaccard(pairs)
        alike = similarity >= min_jaccard
        edges = _Edges(
            np.concatenate([edges.better, pairs[alike, 0]]),
            np.concatenate([edges.worse, pairs[alike, 1]]),
            np.concatenate([edges.similarity, similarity[alike]]),
        )
        kept, chosen = greedy(count, edges)
        through = np.concatenate([np.stack([edges.better, edges.worse], 1), np.stack([edges.worse, edges.better], 1)])
        through = through[~kept[through[:, 0]] & kept[through[:, 1]]]
        through[:, 0] = edges.better[chosen[through[:, 0]]]
        through = through[(through[:, 0] != through[:, 1]) & ~np.all(members.earlier[through], axis=1)]
        pairs = unique_rows(np.sort(through, axis=1))
        pairs = pairs[~np.isin(pairs[:, 0] * count + pairs[:, 1], tested)]
    return edges


def _part_of(places: Ints, members: _Members, catalogue: NumberedDocuments) -> Ints:
    """Return each document's part number."""
    return np.searchsorted(catalogue.bounds, members.node[places], side="right") - 1


def _removed(decision: _Decision, members: _Members, catalogue: NumberedDocuments) -> pa.Table:
    """Return the rows of `SCHEMA` for the removed documents of this run."""
    duplicate_of = decision.duplicate_of
    sizes = np.bincount(duplicate_of, minlength=len(duplicate_of))
    removed = np.flatnonzero((duplicate_of != np.arange(len(duplicate_of))) & ~members.earlier)
    names = pa.array(catalogue.parts, pa.string())
    part, stays = _part_of(removed, members, catalogue), duplicate_of[removed]
    kind = np.where(decision.same[removed] == stays, "exact", "near")
    alike = decision.similarity[removed]
    columns = [
        names.take(pa.array(part)),
        members.node[removed] - catalogue.bounds[part],
        pa.array(members.identity[removed], pa.string()),
        pa.array(members.identity[stays], pa.string()),
        names.take(pa.array(_part_of(stays, members, catalogue))),
        pa.array(kind, pa.string()),
        pa.array(alike, mask=np.isnan(alike)),
        sizes[stays],
    ]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def _survivors(decision: _Decision, members: _Members, catalogue: NumberedDocuments) -> pa.Table:
    """Return the rows of `SURVIVOR_SCHEMA` for this run's kept documents whose cluster has another kept document."""
    stays = decision.duplicate_of == np.arange(len(decision.duplicate_of))
    together = np.bincount(decision.cluster[stays], minlength=len(stays))[decision.cluster] > 1
    kept = np.flatnonzero(stays & together & ~members.earlier)
    names = pa.array(catalogue.parts, pa.string())
    columns = [
        names.take(pa.array(_part_of(kept, members, catalogue))),
        pa.array(members.identity[kept], pa.string()),
        pa.array(members.identity[decision.cluster[kept]], pa.string()),
    ]
    return pa.table(dict(zip(SURVIVOR_SCHEMA.names, columns, strict=True)), schema=SURVIVOR_SCHEMA)


def _spans(table: pa.Table) -> dict[str, list[int]]:
    """Return `{part: [first row, end]}` for the rows of the table."""
    encoded = table["part"].combine_chunks().dictionary_encode()
    sizes = np.bincount(np.asarray(encoded.indices, dtype=np.int64), minlength=len(encoded.dictionary))
    ends = np.cumsum(sizes).tolist()
    return {
        part: [int(end - size), int(end)]
        for part, size, end in zip(encoded.dictionary.to_pylist(), sizes, ends, strict=True)
    }
