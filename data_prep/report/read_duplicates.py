"""Read the tables of duplicates for the report. Only this file of the report depends on their paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.contracts.part_names import own_part
from data_prep.corpus.dedup.read_resolved import open_resolved, read_resolved
from data_prep.corpus.numbered_documents import CorpusTables, Nodes, NumberedDocuments, renamed_rows
from data_prep.formats.shard import read_manifest

BATCH_ROWS = 16_384
OWN = ""
"""Part name that stands for any part of this run, in contrast to parts of earlier runs."""


def _tables(corpus: Path, name: str = "resolved") -> list[Path]:
    """Return the paths of a partitioned table, one per hash partition."""
    return CorpusTables(corpus).partitioned(name, OWN)


def duplicate_counts(corpus: Path) -> dict[str, int]:
    """Return the counts of deduplication: `exact`, `near`, `compared` and `repeated_ids`."""
    total: Counter[str] = Counter()
    for tables, names in (("resolved", ("exact", "near", "compared")), ("candidates", ("repeated_ids",))):
        for path in _tables(corpus, tables):
            counts = read_manifest(path)["counts"]
            total.update({name: counts[name] for name in names})
    return dict(total)


def duplicate_batches(corpus: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the tables of duplicates in order, in batches. Each row is a removed document."""
    for path in _tables(corpus):
        with open_resolved(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def duplicates_of_part(corpus: Path, part: str) -> pa.Table:
    """Return the removed documents of one part, sorted by row."""
    return pa.concat_tables([read_resolved(path, part) for path in _tables(corpus)]).sort_by("row")


def kept_node(catalogue: NumberedDocuments, row: dict[str, Any]) -> int | None:
    """Return the node (number in the corpus) of the document that was kept instead of a duplicate.

    Return None if the kept document belongs to an earlier run.
    """
    if not own_part(row["duplicate_of_part"]):
        return None
    place = pc.index(catalogue.final_ids(row["duplicate_of_part"]), row["duplicate_of"]).as_py()
    return catalogue.start(row["duplicate_of_part"]) + int(place)


def ids_of(catalogue: NumberedDocuments, nodes: Nodes) -> list[str]:
    """Return the final ids of the documents `nodes`, which must be sorted. Final ids are unique."""
    ids = catalogue.take("measures", ["id"], nodes)["id"].to_pylist()
    renamed: dict[int, str] = {}
    for number in np.unique(np.searchsorted(catalogue.bounds, nodes, side="right") - 1).tolist():
        part, start = catalogue.parts[number], int(catalogue.bounds[number])
        found = renamed_rows(catalogue.partitioned("repeated", part), part)
        renamed |= {start + row: identity for row, identity in found.items()}
    return [renamed.get(node, known) for node, known in zip(nodes.tolist(), ids, strict=True)]
