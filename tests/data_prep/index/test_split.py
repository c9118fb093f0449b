"""Which documents are held out."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from data_prep.index.keys import id_hashes
from data_prep.index.split import held_out

IDS = st.lists(st.integers(0, 2**128 - 1).map("{:032x}".format))


@given(IDS, st.floats(0, 1))
def test_held_out_is_the_fraction_that_the_id_begins_with(ids, share):
    from fractions import Fraction

    found = held_out(id_hashes(pa.array(ids, pa.string())), share)
    assert found.tolist() == [Fraction(int(text[:16], 16), 2**64) < Fraction(share) for text in ids]


def test_a_slice_of_an_array_keeps_its_own_ids():
    ids = pa.array([hashlib.blake2b(bytes([n]), digest_size=16).hexdigest() for n in range(50)])
    assert id_hashes(ids.slice(7, 5)).tolist() == [int(text[:16], 16) for text in ids.slice(7, 5).to_pylist()]


def test_none_and_all():
    hashes = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert not held_out(hashes, 0.0).any()
    assert held_out(hashes, 1.0).all()


@pytest.mark.parametrize(("text", "what"), [("abc", "shorter"), ("x" * 32, "not hexadecimal")])
def test_other_ids_are_refused(text, what):
    with pytest.raises(InputError, match=what):
        id_hashes(pa.array(["0" * 32, text]))
