"""Compute the sizes of the clusters of duplicates, and describe the largest clusters with their kept documents.

This reads the table of duplicates twice, in batches. Only the clusters that are shown are in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.corpus.numbered_documents import NumberedDocuments
from data_prep.report.examples import excerpts, kept_document
from data_prep.report.read_duplicates import duplicate_batches

LARGEST = 12


def clusters(catalogue: NumberedDocuments) -> dict[str, Any]:
    """Return the number of clusters (`count`), a histogram of their sizes (`sizes`), and the `largest` clusters.

    Each row of `sizes` holds a range of sizes, and the numbers of `clusters` and of `removed` documents in it. The
    range begins at `from`, which is a power of two, and includes `to`.
    """
    sizes = _sizes(catalogue.corpus)
    # A cluster of size n has n - 1 rows in the table, one per removed document, and each row holds n. Documents of
    # earlier runs count in n but have no rows, so the quotient is rounded.
    alone = np.arange(len(sizes))
    number = np.divide(sizes, alone - 1, out=np.zeros(len(sizes)), where=alone > 1).round().astype(np.int64)
    rows = []
    low = 2
    while low < len(sizes):
        inside = slice(low, 2 * low)
        if number[inside].any():
            rows.append(
                {
                    "from": low,
                    "to": 2 * low - 1,
                    "clusters": int(number[inside].sum()),
                    "removed": int(sizes[inside].sum()),
                }
            )
        low *= 2
    return {"count": int(number.sum()), "sizes": rows, "largest": _largest(catalogue, number)}


def _sizes(corpus: Path) -> npt.NDArray[np.int64]:
    """Return the number of rows of the table per cluster size, int64 [greatest size + 1]."""
    total = np.zeros(0, dtype=np.int64)
    for batch in duplicate_batches(corpus, ["cluster_size"]):
        counted = np.bincount(batch["cluster_size"].to_numpy())
        longer, shorter = (total, counted) if len(total) > len(counted) else (counted, total)
        total = longer.astype(np.int64)
        total[: len(shorter)] += shorter
    return total


def _largest(catalogue: NumberedDocuments, number: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return the largest clusters. Among clusters of the same size, the first in the table are taken."""
    # `least` is the smallest size among the largest clusters. Of clusters with exactly this size, `room` are taken.
    enough = np.flatnonzero(np.cumsum(number[::-1]) >= LARGEST)
    least = len(number) - 1 - int(enough[0]) if len(enough) else 2
    room = LARGEST - int(number[least + 1 :].sum())
    chosen: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _members(catalogue.corpus, least, room):
        key = (row["duplicate_of_part"], row["duplicate_of"])
        if key not in chosen:
            chosen[key] = {"size": row["cluster_size"], "kinds": Counter(), "sources": Counter(), "member": row}
        entry = chosen[key]
        entry["kinds"][row["kind"]] += 1
        entry["sources"][row["part"].split("/")[0]] += 1
        # Show the member that is least similar to the kept document.
        if _likeness(row) < _likeness(entry["member"]):
            entry["member"] = row
    ordered = sorted(chosen.items(), key=lambda item: (-item[1]["size"], item[0]))
    return [_described(catalogue, entry) for _, entry in ordered]


def _likeness(row: dict[str, Any]) -> tuple[float, str, int]:
    """Return a sort key of a cluster's members: similarity (0 if not compared), then part and row."""
    return (row["similarity"] or 0.0, row["part"], row["row"])


def _members(corpus: Path, least: int, room: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of clusters larger than `least`, and of the first `room` clusters of exactly that size."""
    columns = ["part", "row", "duplicate_of", "duplicate_of_part", "kind", "similarity", "cluster_size"]
    taken: set[tuple[str, str]] = set()
    for batch in duplicate_batches(corpus, columns):
        equal = pc.equal(batch["cluster_size"], least)
        if len(taken) == room:
            # All `room` clusters are known. Filter other clusters of this size here, before rows become Python objects.
            names = pa.array(sorted({kept for _, kept in taken}), pa.string())
            equal = pc.and_(equal, pc.is_in(batch["duplicate_of"], value_set=names))
        wanted = batch.filter(pc.or_(equal, pc.greater(batch["cluster_size"], least)))
        for row in wanted.to_pylist():
            key = (row["duplicate_of_part"], row["duplicate_of"])
            if row["cluster_size"] == least and key not in taken:
                if len(taken) == room:
                    continue
                taken.add(key)
            yield row


def _described(catalogue: NumberedDocuments, entry: dict[str, Any]) -> dict[str, Any]:
    member = entry["member"]
    removed = excerpts(catalogue, np.array([catalogue.start(member["part"]) + member["row"]]))[0]
    return {
        "size": entry["size"],
        "exact": entry["kinds"]["exact"],
        "near": entry["kinds"]["near"],
        "sources": dict(sorted(entry["sources"].items())),
        "kept": kept_document(catalogue, member),
        "removed": removed | {"kind": member["kind"], "similarity": member["similarity"]},
    }
