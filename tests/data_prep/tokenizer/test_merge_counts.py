"""Test the sum of sorted count tables."""

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from data_prep.tokenizer.merge_counts import COUNT_SCHEMA, merge_counts


def batch(rows: dict[tuple[str, str], int]) -> pa.RecordBatch:
    columns = [[code for code, _ in rows], [piece for _, piece in rows], list(rows.values())]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, COUNT_SCHEMA.types, strict=True)]
    return pa.record_batch(arrays, schema=COUNT_SCHEMA)


COUNTED = st.dictionaries(st.tuples(st.sampled_from(["en", "fr"]), st.text("aé人", max_size=3)), st.integers(1, 9))


@given(tables=st.lists(COUNTED, max_size=4), size=st.integers(1, 4))
def test_sorted_tables_in_batches_of_any_size_are_summed(tables: list[dict[tuple[str, str], int]], size: int) -> None:
    def batches(table: dict[tuple[str, str], int]) -> Any:
        rows = batch(dict(sorted(table.items())))
        return iter([rows.slice(start, size) for start in range(0, len(table) + 1, size)])

    found = [row for table in merge_counts(map(batches, tables)) for row in table.to_pylist()]
    wanted: Counter[tuple[str, str]] = Counter()
    for table in tables:
        wanted.update(table)
    assert [((row["language"], row["piece"]), row["count"]) for row in found] == sorted(wanted.items())
