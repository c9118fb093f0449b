"""The table of pre-token counts, and how sorted pieces of it are added up without holding them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

COUNT_SCHEMA = pa.schema([("language", pa.string()), ("piece", pa.large_string()), ("count", pa.int64())])
"""Sorted by (language, piece), each of which occurs once; a piece is text, its UTF-8 bytes are what is trained on."""


def merge_counts(tables: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
    """The sum of tables that come sorted, batch by batch; sorted itself. Holds one batch of each."""
    heads = [(head, rest) for rest in map(_with_rows, tables) if (head := next(rest, None)) is not None]
    while heads:
        # Every table has been read up to here, so what comes first is complete.
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
    """What is sorted by: strings compare as their UTF-8 bytes do."""
    return batch["language"][row].as_py(), batch["piece"][row].as_py()


def _summed(table: pa.Table) -> pa.Table:
    grouped = table.group_by(["language", "piece"]).aggregate([("count", "sum")])
    columns = grouped.select(["language", "piece", "count_sum"]).rename_columns(COUNT_SCHEMA.names)
    return columns.sort_by([("language", "ascending"), ("piece", "ascending")]).cast(COUNT_SCHEMA)
