"""Read one partition of a shard's table without reading the rest.

Such a table is a sequence of sorted runs of up to a few million records. The records of a run are sorted by partition.
`runs` in the manifest has the number of records of each partition in each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from data_prep.formats.shard import read_manifest, read_span


def read_runs(table: Path, partition: int, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the records of a partition, one table per run. Raises InputError for a missing or damaged table."""
    start = 0
    for counts in read_manifest(table)["counts"]["runs"]:
        first = start + sum(counts[:partition])
        if counts[partition]:
            yield read_span(table, first, first + counts[partition], columns)
        start += sum(counts)


def count_records(table: Path, partition: int) -> int:
    """Return the number of records of a partition."""
    return sum(counts[partition] for counts in read_manifest(table)["counts"]["runs"])
