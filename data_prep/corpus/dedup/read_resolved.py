"""Read the tables of removed duplicates that `resolve` wrote. Tables of an earlier version raise InputError."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.corpus.dedup.resolve import SCHEMA
from data_prep.corpus.numbered_documents import read_part
from data_prep.formats.shard import check_columns, open_table

# The tables of members must be deleted too, because in an earlier version they lack a column that `resolve` reads.
_DELETE = "corpus/members/ and corpus/duplicates/resolved-* of this run"


def read_resolved(path: Path, part: str) -> pa.Table:
    """Return the rows of `SCHEMA` of one part. Raises InputError for a table that is missing, damaged or too old."""
    rows = read_part(path, part)
    check_columns(path, rows.column_names, SCHEMA, delete=_DELETE)
    return rows


@contextlib.contextmanager
def open_resolved(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a table of `SCHEMA` to read it in batches. Raises InputError like `read_resolved`."""
    with open_table(path) as file:
        check_columns(path, file.schema_arrow.names, SCHEMA, delete=_DELETE)
        yield file
