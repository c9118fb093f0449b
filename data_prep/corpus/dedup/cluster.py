"""Which documents go, and for which twin.

Exact duplicates: the best document of each content stays. Near duplicates: the best documents are kept greedily, as if
one went through all documents from the best to the worst and removed each one whose Jaccard similarity to an already
kept candidate is at least `min_jaccard`. So a removed document is truly similar to the twin that it names, and in a
chain A ~ B ~ C, C stays when it is unlike A. The greedy order is computed in vectorised rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.config.stages import DedupStage
from bloomery.contracts.shard import read_manifest, read_table, write_table
from data_prep.corpus.catalogue import Catalogue, Nodes
from data_prep.corpus.dedup.rank import order as rank_order
from data_prep.corpus.dedup.shingles import ShingleStore

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("twin", pa.string()),
        ("twin_part", pa.string()),
        ("kind", pa.string()),
        ("similarity", pa.float64()),
        ("cluster_size", pa.int64()),
    ]
)
"""One row a removed document. `part` (`source/00000`) tells equal ids apart; `cluster_size` counts the twin."""


class _Edges(NamedTuple):
    """Verified pairs by place among the involved documents, which are ordered from best to worst: better < worse."""

    better: Ints
    worse: Ints
    similarity: npt.NDArray[np.float64]


def greedy(count: int, edges: _Edges) -> tuple[Bools, Ints]:
    """Keep documents from best (0) to worst, removing each one with a kept better neighbour.

    Returns:
        kept bool [count]; edge int64 [count], the removed document's edge to its best kept neighbour, -1 if kept.
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


def cluster(stage: DedupStage, catalogue: Catalogue, candidates: list[Path], output: Path) -> dict[str, Any]:
    """Decide all duplicates from the candidate pairs of every partition; write them and return the manifest.

    Rows are sorted by part and id; the manifest's `spans` tells each part's rows.

    Raises:
        InputError: a partition or a table of the corpus is missing or damaged.
    """
    if len(candidates) != stage.dedup.partitions:
        raise InputError(
            f"{len(candidates)} candidate files",
            where=str(output.parent),
            expected=f"{stage.dedup.partitions}, one a partition (dedup.partitions)",
        )
    manifests = [read_manifest(path) for path in candidates]
    tables = [read_table(path) for path in candidates]
    pairs = pa.concat_tables(tables)
    ends = np.stack([pairs["best"].to_numpy(), pairs["other"].to_numpy()], axis=1)
    exact = np.asarray(pairs["exact"].to_numpy()).astype(np.bool_)
    # From here on documents are places 0..n-1 among the involved ones, from the best to the worst.
    involved = np.unique(ends)
    facts = catalogue.take("measures", ["id", "source", "language", "words"], involved)
    rank = rank_order(facts, stage.priorities)
    nodes = np.empty_like(involved)
    nodes[rank] = involved
    places = rank[np.searchsorted(involved, ends)]
    count = len(involved)
    same = np.arange(count)
    same[places[exact, 1]] = places[exact, 0]
    near = _near_pairs(places[~exact], same, _languages(facts, rank))
    say(f"duplicates: {int(exact.sum())} exact, {len(near)} candidate pairs to compare")
    verified = _verify(near, stage, catalogue, nodes, output.parent)
    _, chosen = greedy(count, verified)
    twin, similarity = same.copy(), np.ones(count)
    moved = np.flatnonzero(chosen >= 0)
    twin[moved] = verified.better[chosen[moved]]
    similarity[moved] = verified.similarity[chosen[moved]]
    # An exact copy of a near duplicate goes with it, to the twin that stays, whatever its own language label says.
    similarity = similarity[same]
    twin = twin[same]
    removed = np.flatnonzero(twin != np.arange(count))
    table = _table(removed, twin, similarity, same, nodes, catalogue)
    kinds = {name: int(np.sum(table["kind"].to_numpy() == name)) for name in ("exact", "near")}
    return write_table(
        output,
        table,
        kind="duplicates",
        inputs={path.stem: found["file"]["digest"] for path, found in zip(candidates, manifests, strict=True)},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts=kinds
        | {
            "compared": len(near),
            "repeated_ids": sum(found["counts"]["repeated_ids"] for found in manifests),
            "spans": _spans(table),
        },
    )


def _languages(facts: pa.Table, rank: Ints) -> Ints:
    codes = facts["language"].combine_chunks().dictionary_encode().indices
    result = np.empty(len(rank), dtype=np.int64)
    result[rank] = np.asarray(codes)
    return result


def _near_pairs(places: Ints, same: Ints, language: Ints) -> Ints:
    """Unique (better, worse) pairs of different content in one language."""
    pairs = np.sort(same[places], axis=1)
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & (language[pairs[:, 0]] == language[pairs[:, 1]])]
    return np.unique(pairs, axis=0)


def _verify(pairs: Ints, stage: DedupStage, catalogue: Catalogue, nodes: Nodes, folder: Path) -> _Edges:
    """Similar candidates, and those found through them: who is like a removed document may be like its twin."""
    store = ShingleStore(stage, catalogue, np.unique(nodes[pairs]), folder)
    count = len(nodes)
    tested = np.empty(0, dtype=np.int64)
    edges = _Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    while len(pairs):
        tested = np.union1d(tested, pairs[:, 0] * count + pairs[:, 1])
        similarity = store.jaccard(nodes[pairs[:, 0]], nodes[pairs[:, 1]])
        alike = similarity >= stage.dedup.near.min_jaccard
        edges = _Edges(
            np.concatenate([edges.better, pairs[alike, 0]]),
            np.concatenate([edges.worse, pairs[alike, 1]]),
            np.concatenate([edges.similarity, similarity[alike]]),
        )
        kept, chosen = greedy(count, edges)
        through = np.concatenate([np.stack([edges.better, edges.worse], 1), np.stack([edges.worse, edges.better], 1)])
        through = through[~kept[through[:, 0]] & kept[through[:, 1]]]
        through[:, 0] = edges.better[chosen[through[:, 0]]]
        pairs = np.unique(np.sort(through[through[:, 0] != through[:, 1]], axis=1), axis=0)
        pairs = pairs[~np.isin(pairs[:, 0] * count + pairs[:, 1], tested)]
    return edges


def _table(
    removed: Ints, twin: Ints, similarity: npt.NDArray[np.float64], same: Ints, nodes: Nodes, catalogue: Catalogue
) -> pa.Table:
    """The rows of `SCHEMA` for the removed documents."""
    sizes = np.bincount(twin, minlength=len(twin))
    mentioned = np.unique(nodes[np.concatenate([removed, twin[removed]])])
    ids = catalogue.take("measures", ["id"], mentioned)["id"].combine_chunks()
    names = pa.array(catalogue.parts, pa.string())

    def identity(places: Ints) -> tuple[pa.Array, pa.Array]:
        wanted = nodes[places]
        part = np.searchsorted(catalogue.bounds, wanted, side="right") - 1
        return ids.take(pa.array(np.searchsorted(mentioned, wanted))), names.take(pa.array(part))

    own, own_part = identity(removed)
    other, other_part = identity(twin[removed])
    kind = np.where(same[removed] == twin[removed], "exact", "near")
    columns = [own, own_part, other, other_part, pa.array(kind, pa.string()), similarity[removed], sizes[twin[removed]]]
    table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
    return table.sort_by([("part", "ascending"), ("id", "ascending")])


def _spans(table: pa.Table) -> dict[str, list[int]]:
    """First row and end of each part's rows."""
    encoded = table["part"].combine_chunks().dictionary_encode()
    sizes = np.bincount(np.asarray(encoded.indices, dtype=np.int64), minlength=len(encoded.dictionary))
    ends = np.cumsum(sizes).tolist()
    return {
        part: [int(end - size), int(end)]
        for part, size, end in zip(encoded.dictionary.to_pylist(), sizes, ends, strict=True)
    }
