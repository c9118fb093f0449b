"""Compare the most frequent pieces with a plain sort."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.tokenizer.most_frequent import BINS, Cut, above_cut, find_cut

FEW = st.integers(1, 5)
MANY = st.one_of(FEW, st.integers(BINS - 3, BINS + 3), st.integers(1, 2**60), st.sampled_from([2**59, 2**59 + 1]))


def parts_of(counts, part):
    pieces = [f"{number:04d}".encode() for number in range(len(counts))]
    return [
        (pa.array(pieces[start : start + part], pa.large_binary()), np.array(counts[start : start + part], np.int64))
        for start in range(0, len(counts), part)
    ]


@settings(deadline=None)
@given(st.lists(FEW, max_size=40) | st.lists(MANY, max_size=40), st.integers(1, 45), st.integers(1, 7))
def test_the_kept_pieces_are_the_first_of_a_plain_sort(counts, pieces, part):
    parts = parts_of(counts, part)
    cut = find_cut(parts, pieces)
    kept = [row for of, numbers in above_cut(parts, cut) for row in zip(of.to_pylist(), numbers.tolist(), strict=True)]
    rows = [row for of, numbers in parts for row in zip(of.to_pylist(), numbers.tolist(), strict=True)]
    assert kept == sorted(sorted(rows, key=lambda row: (-row[1], row[0]))[:pieces])


def test_small_counts_are_read_only_once():
    class Once(list):
        read = 0

        def __iter__(self):
            self.read += 1
            return super().__iter__()

    parts = Once(parts_of([3, 1, 2, 2, 9], 2))
    assert find_cut(parts, 3) == Cut(2, 1)
    assert parts.read == 1
