"""Clusters of duplicates: how large they are, and the largest of them with the document that stayed.

Two passes over the table of duplicates, a batch at a time; only the clusters that are shown are held.
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
    """`count`; `sizes`: rows of `from`, `to` (powers of two), `clusters`, `removed`; and the `largest` clusters."""
    sizes = _sizes(catalogue.corpus)
    # Every document but the one that stayed is in the table (but for those of earlier runs), and each names the size.
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
    """int64 [greatest size + 1]: rows of the table whose cluster has that size."""
    total = np.zeros(0, dtype=np.int64)
    for batch in duplicate_batches(corpus, ["cluster_size"]):
        counted = np.bincount(batch["cluster_size"].to_numpy())
        longer, shorter = (total, counted) if len(total) > len(counted) else (counted, total)
        total = longer.astype(np.int64)
        total[: len(shorter)] += shorter
    return total


def _largest(catalogue: NumberedDocuments, number: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """The largest clusters; of those that are equally large, the first in the table."""
    # The size that a cluster must have to be among them, and how many of just that size there is room for.
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
        # The member that is shown is the one least like the kept document.
        if _likeness(row) < _likeness(entry["member"]):
            entry["member"] = row
    ordered = sorted(chosen.items(), key=lambda item: (-item[1]["size"], item[0]))
    return [_described(catalogue, entry) for _, entry in ordered]


def _likeness(row: dict[str, Any]) -> tuple[float, str, int]:
    """Sorts members of a cluster; where nothing was compared, by their place."""
    return (row["similarity"] or 0.0, row["part"], row["row"])


def _members(corpus: Path, least: int, room: int) -> Iterator[dict[str, Any]]:
    """Rows of clusters larger than `least`, and of the first `room` clusters of just that size."""
    columns = ["part", "row", "duplicate_of", "duplicate_of_part", "kind", "similarity", "cluster_size"]
    taken: set[tuple[str, str]] = set()
    for batch in duplicate_batches(corpus, columns):
        equal = pc.equal(batch["cluster_size"], least)
        if len(taken) == room:
            # All are known: the others of that size are left out before they become objects.
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
