"""Read tables of a shard whose records are sorted by partition, a few million at a time.

Such a table is a sequence of runs, each sorted by partition; `runs` in its manifest counts the records of each
partition in each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from data_prep.formats.shard import read_manifest, read_span


def read_runs(table: Path, partition: int, columns: list[str]) -> Iterator[pa.Table]:
    """The records of a partition, run by run. Raises InputError for a missing or damaged table."""
    start = 0
    for counts in read_manifest(table)["counts"]["runs"]:
        first = start + sum(counts[:partition])
        if counts[partition]:
            yield read_span(table, first, first + counts[partition], columns)
        start += sum(counts)


def count_records(table: Path, partition: int) -> int:
    """Number of records of a partition."""
    return sum(counts[partition] for counts in read_manifest(table)["counts"]["runs"])
