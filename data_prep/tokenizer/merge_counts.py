"""Schema of the table of pre-token counts, and a merge of sorted tables in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

COUNT_SCHEMA = pa.schema([("language", pa.string()), ("piece", pa.large_string()), ("count", pa.int64())])
"""Columns of a count table. Rows are sorted by (language, piece), and each such pair occurs once. A piece is stored as
text; training uses the UTF-8 bytes."""


def merge_counts(tables: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
    """Yield the rows of all sorted tables in sorted order, with counts summed per language and piece.

    Only one batch of each table is in memory.
    """
    heads = [(head, rest) for rest in map(_with_rows, tables) if (head := next(rest, None)) is not None]
    while heads:
        # Every table has been read at least up to `bound`, so all rows up to `bound` are in memory.
        bound = min(_key(head, head.num_rows - 1) for head, _ in heads)
        complete, left = [], []
        for head, rest in heads:
            cut = bisect_right(range(head.num_rows), bound, key=partial(_key, head))
            complete.append(head.slice(0, cut))
            following = head.slice(cut) if cut < head.num_rows else next(rest, None)
            if following is not None:
                left.append((following, rest))
        heads = left
        yield _summed(pa.Table.from_batches(complete, schema=COUNT_SCHEMA))


def _with_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _key(batch: pa.RecordBatch, row: int) -> tuple[str, str]:
    """Return the sort key of a row. Python compares strings by code point, which is also the order of UTF-8 bytes."""
    return batch["language"][row].as_py(), batch["piece"][row].as_py()


def _summed(table: pa.Table) -> pa.Table:
    grouped = table.group_by(["language", "piece"]).aggregate([("count", "sum")])
    columns = grouped.select(["language", "piece", "count_sum"]).rename_columns(COUNT_SCHEMA.names)
    return columns.sort_by([("language", "ascending"), ("piece", "ascending")]).cast(COUNT_SCHEMA)
