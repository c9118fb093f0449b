"""Test which documents are held out, and how documents are split into groups."""

import hashlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import packed

from bloomery.base.errors import InputError
from bloomery.contracts.index import open_token_file
from data_prep.formats.sidecar import sidecar_path
from data_prep.index import _index
from data_prep.index.split import TextSize, TrainValidationSplit, below, numbers_of, tokens_of
from data_prep.index.split_keys import id_hashes

IDS = st.lists(st.integers(0, 2**128 - 1).map("{:032x}".format))
DOCUMENTS = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2**64 - 1)), max_size=40
)


@given(IDS, st.floats(0, 1))
def test_a_document_is_held_out_if_the_fraction_in_its_id_is_below_the_share(ids, share):
    keys = id_hashes(pa.array(ids, pa.string())).tolist()
    assert [key < below(share) for key in keys] == [
        Fraction(int(text[:16], 16), 2**64) < Fraction(share) for text in ids
    ]


def test_a_slice_of_an_array_gives_the_hashes_of_its_own_ids():
    ids = pa.array([hashlib.blake2b(bytes([n]), digest_size=16).hexdigest() for n in range(50)])
    assert id_hashes(ids.slice(7, 5)).tolist() == [int(text[:16], 16) for text in ids.slice(7, 5).to_pylist()]


def test_a_share_of_0_holds_out_no_id_and_a_share_of_1_every_id():
    assert below(0.0) == 0
    assert below(1.0) == 2**64


@pytest.mark.parametrize(("text", "what"), [("abc", "shorter"), ("x" * 32, "not hexadecimal")])
def test_short_or_not_hexadecimal_ids_are_refused(text, what):
    with pytest.raises(InputError, match=f"s/00000.parquet: .*{what}"):
        id_hashes(pa.array(["0" * 32, text]), where="s/00000.parquet")


def add(split, first, documents, held_out_below, *, pairs=((0, 1), (2, 3), (4, 5)), every=False):
    lengths, languages, sources, keys = (
        (list(column) for column in zip(*documents, strict=True)) if documents else [[]] * 4
    )
    split.add(
        first,
        np.array(lengths, np.int32),
        np.array(languages, np.int32),
        np.array(sources, np.int32),
        np.array(keys, np.uint64),
        np.array(pairs, np.int32),
        held_out_below,
        every,
    )


@given(DOCUMENTS, DOCUMENTS, st.integers(0, 2**33 - 100), st.integers(0, 2**64 - 1), st.booleans())
def test_the_split_keeps_every_document_once_in_order(one, other, first, held_out_below, every):
    split = _index.Deal()
    add(split, first, one, held_out_below, every=every)
    add(split, first + len(one), other, held_out_below, every=every)
    groups = [[] for _ in range(12)]
    for number, (length, language, source, key) in enumerate([*one, *other], first):
        groups[2 * (2 * language + source) + (every or key < held_out_below)].append((number, length))
    counts = split.groups().tolist()
    assert counts == [
        [len(own), sum(length for _, length in own), max((length for _, length in own), default=0)]
        for own in groups[: len(counts)]
    ]
    assert not any(groups[len(counts) :])
    for number in range(len(counts)):
        rows = split.take([number])
        assert list(zip(numbers_of(rows).tolist(), tokens_of(rows).tolist(), strict=True)) == groups[number]


def test_a_group_can_be_taken_only_once():
    split = _index.Deal()
    add(split, 0, [(5, 0, 0, 1)], 0)
    assert split.take([0, 1][:1]).tolist() == packed(np.array([0]), np.array([5])).tolist()
    with pytest.raises(ValueError, match="taken before"):
        split.take([0])


@pytest.mark.parametrize(
    ("document", "first", "what"),
    [
        ((-1, 0, 0, 0), 0, "out of range"),
        ((1, 3, 0, 0), 0, "out of range"),
        ((1, 0, -1, 0), 0, "out of range"),
        ((1, 0, 0, 0), 2**33, "more than 2\\^33 documents"),
    ],
)
def test_numbers_out_of_range_are_refused(document, first, what):
    with pytest.raises(ValueError, match=what):
        add(_index.Deal(), first, [document], 0)


def test_columns_of_different_lengths_are_refused():
    one, two = np.zeros(1, np.int32), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="equally long"):
        _index.Deal().add(0, two, two, one, np.zeros(2, np.uint64), np.zeros((1, 1), np.int32), 0, False)


def test_a_run_is_split_by_language_and_source(run):
    split, first = TrainValidationSplit(0.2), 0
    for number, part in enumerate(run.parts):
        prefix = run.index / "tokens" / part
        file = open_token_file(prefix)
        split.add(number, first, prefix, file)
        first += len(file.lengths)
    train, apart = split.texts(), split.texts(held_out=True)
    assert list(train) == sorted(run.weights)
    assert {language: list(texts) for language, texts in train.items()} == {
        language: ["s"] for language in sorted(run.weights)
    }
    for language in apart:
        both = train[language]["s"].documents + apart[language]["s"].documents
        assert both == 21
        rows = split.take(language, ["s"], held_out=True)
        assert TextSize(len(rows), int(tokens_of(rows).sum()), int(tokens_of(rows).max())) == apart[language]["s"]
        assert split.files(language, ["s"], held_out=True)
    assert split.files("en", ["s"]) == [0, 2], "the second token file is empty"


def test_a_sidecar_with_another_number_of_documents_is_refused(own_run):
    tokens = own_run.index / "tokens/s"
    file = open_token_file(tokens / "00000")
    for suffix in (".parquet", ".json"):
        other = sidecar_path(tokens / "00002").with_suffix(suffix)
        other.replace(sidecar_path(tokens / "00000").with_suffix(suffix))
    with pytest.raises(InputError, match=r"as the sidecar \(.*\) states"):
        TrainValidationSplit(0.1).add(0, 0, tokens / "00000", file)
