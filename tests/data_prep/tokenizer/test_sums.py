"""Test the sums of counted pieces, in memory and spilled to disk."""

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.tokenizer import sums as module
from data_prep.tokenizer.sums import RUN_SCHEMA, Sums

ROWS = st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 3), st.integers(1, 2**40)), max_size=60)


def table_of(rows):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, RUN_SCHEMA.types, strict=True)], RUN_SCHEMA.names
    )


def summed(folder, batches, pending_rows=None):
    """Return the rows of each part of the sums, and the number of sorted runs that were spilled to disk."""
    with Sums(folder, pending_rows) as sums:
        for batch in batches:
            sums.add(table_of(batch))
        sums.finish()
        parts = [[tuple(row.values()) for row in part.to_pylist()] for part in sums]
        assert parts == [[tuple(row.values()) for row in part.to_pylist()] for part in sums], (
            "the sums can be read repeatedly"
        )
        return parts, sums.runs


@settings(deadline=None)
@given(st.lists(ROWS, max_size=8), st.integers(1, 40), st.integers(1, 5))
def test_sums_equal_those_of_a_counter_however_much_is_spilled(tmp_path_factory, batches, pending_rows, block_rows):
    wanted = Counter()
    for piece, dataset, count in (row for batch in batches for row in batch):
        wanted[piece, dataset] += count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ROWS", block_rows)
        parts, _ = summed(tmp_path_factory.mktemp("x"), batches, pending_rows)
    rows = [row for part in parts for row in part]
    assert rows == [(*key, count) for key, count in sorted(wanted.items())]
    for part, following in pairwise(parts):
        assert part[-1][0] < following[0][0], "a piece is never divided between parts"


def test_repeated_rows_are_not_spilled(tmp_path):
    batches = [[(b"a", 0, 1), (b"b", 0, 1)]] * 100
    assert summed(tmp_path, batches, 20) == ([[(b"a", 0, 100), (b"b", 0, 100)]], 0)


def test_many_runs_leave_no_file_on_the_disk(tmp_path):
    batches = [[(f"{number:05d}".encode(), 0, 1)] for number in range(3000)]
    parts, runs = summed(tmp_path, batches, 10)
    assert runs > 100
    assert sum(map(len, parts)) == 3000
    assert not list(tmp_path.iterdir())
