"""Compare sample starts with a plain concatenation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import packed

from data_prep.index import _index
from data_prep.index.order import samples_in
from data_prep.index.sample_arrays import narrow

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 12), st.integers(1, 7), st.integers(0, 10), st.booleans())
def test_sample_starts_equal_those_of_the_concatenation(lengths, sequence_length, piece, most, wide):
    owner = [(number, offset) for number, length in enumerate(lengths) for offset in range(length)]
    walk = _index.SampleWalk(sequence_length, most, 0, 0)
    rows = packed(np.arange(len(lengths)), np.array(lengths))
    found = np.concatenate([walk.advance(rows[at : at + piece], wide) for at in range(0, len(rows), piece)])
    assert found.dtype == (np.int64 if wide else np.uint32)
    assert [tuple(row) for row in found.tolist()] == owner[::sequence_length][: most + 1]


@given(st.integers(0, 200), st.integers(1, 12))
def test_whole_samples_need_one_token_beyond_their_inputs(tokens, sequence_length):
    assert samples_in(tokens, sequence_length) == sum(
        start + sequence_length < tokens for start in range(0, tokens, sequence_length)
    )


def test_narrow_returns_int64_only_for_large_numbers():
    assert narrow(2**32) == np.uint32
    assert narrow(2**32 + 1) == np.int64
