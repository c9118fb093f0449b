"""Sums and weights of counts."""

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from bloomery.contracts.mixture import Mixture
from bloomery.contracts.shard import write_table
from data_prep.tokenizer import weigh
from data_prep.tokenizer.count import COUNT_SCHEMA
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN
from data_prep.tokenizer.weigh import language_factors, sum_counts, weighted_pieces

PIECES = st.text("ab é人<s>/", min_size=1, max_size=6)
COUNTS = st.dictionaries(
    st.tuples(st.sampled_from(["en", "fr", "hi"]), PIECES), st.integers(1, 10**9), min_size=1, max_size=12
)


def table_of(counts):
    rows = sorted((language, piece, count) for (language, piece), count in counts.items())
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, COUNT_SCHEMA, strict=True)]
    return pa.table(arrays, schema=COUNT_SCHEMA)


def summed(tmp, *counts):
    paths = []
    for number, of_shard in enumerate(counts):
        paths.append(tmp / f"{number}.parquet")
        write_table(paths[-1], table_of(of_shard), kind="", inputs={}, parameters="")
    return sum_counts(paths)


def unpacked(data):
    raw = bytes(data.pieces)
    spans = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return {raw[begin:end]: int(count) for (begin, end), count in zip(spans, data.counts, strict=True)}


@given(COUNTS, COUNTS)
def test_shards_add_up_in_any_order(tmp_path_factory, first, second):
    table = summed(tmp_path_factory.mktemp("x"), first, second)
    rows = {(row["language"], row["piece"]): row["count"] for row in table.to_pylist()}
    assert rows == Counter(first) + Counter(second)
    assert table.equals(summed(tmp_path_factory.mktemp("x"), second, first))


def test_sums_in_rounds_are_the_same_sums(tmp_path, monkeypatch):
    counts = [{("en", f"p{number % 3}"): 1, ("fr", "q"): number + 1} for number in range(9)]
    whole = summed(tmp_path, *counts)
    monkeypatch.setattr(weigh, "PENDING_ROWS", 4)
    assert summed(tmp_path, *counts).equals(whole)


@given(COUNTS)
def test_languages_weigh_what_the_mixture_says(tmp_path_factory, counts):
    weights = {"en": 0.5, "fr": 0.3, "hi": 0.2}
    data = weighted_pieces(summed(tmp_path_factory.mktemp("x"), counts), weights)
    assert min(data.factors.values()) == pytest.approx(1.0)
    shares = {code: size * data.factors[code] / weights[code] for code, size in data.language_bytes.items()}
    assert max(shares.values()) == pytest.approx(min(shares.values()))


@given(COUNTS)
def test_weighted_counts_are_the_definition(tmp_path_factory, counts):
    weights = {"en": 0.5, "fr": 0.3, "hi": 0.2}
    data = weighted_pieces(summed(tmp_path_factory.mktemp("x"), counts), weights)
    wanted = Counter()
    for (language, piece), count in counts.items():
        for part in re.split(SPECIAL_PATTERN, piece):
            if part:
                wanted[part.encode()] += max(1, round(count * data.factors[language]))
    assert list(unpacked(data)) == sorted(wanted)
    assert unpacked(data) == wanted


def test_no_piece_spells_a_special_token(tmp_path):
    counts = {("en", " <s>old</s>"): 3, ("en", "<<s>s>"): 2, ("en", "<reserved_12>x"): 1, ("en", "s>"): 1}
    data = weighted_pieces(summed(tmp_path, counts), {"en": 1.0})
    assert unpacked(data) == {b" ": 3, b"old": 3, b"<": 2, b"s>": 3, b"x": 1}


def test_a_large_corpus_stays_within_64_bits():
    # English of ROOTS (484 GB) with a small weight beside a tiny language: scaled down to 2^60 bytes in all.
    factors = language_factors({"en": 484_953_009_124, "tum": 170_265}, {"en": 1e-9, "tum": 1.0})
    assert 484_953_009_124 * factors["en"] + 170_265 * factors["tum"] == pytest.approx(2**60, rel=1e-6)
    assert np.iinfo(np.int64).max > 2**60


def test_a_language_without_weight_is_left_out(tmp_path):
    data = weighted_pieces(summed(tmp_path, {("en", "a"): 1, ("fr", "b"): 1, ("hi", "c"): 1}), {"en": 1.0, "fr": 0.0})
    assert unpacked(data) == {b"a": 1}


def test_a_language_mixed_by_source_is_weighed_by_source(tmp_path):
    mixture = Mixture(languages={"en": 0.8, "fr": 0.2}, sources={"en": {"web": 0.2, "books": 0.6}}, max_epochs=None)
    paths = []
    counted = {"web": {("en", "a"): 4, ("fr", "b"): 2}, "books": {("en", "a"): 3}, "mail": {("en", "c"): 9}}
    for source, counts in counted.items():
        paths.append(tmp_path / f"{source}.parquet")
        write_table(paths[-1], table_of(counts), kind="", inputs={}, parameters="")
    table = sum_counts(paths, mixture, list(counted))
    assert table.to_pydict() == {
        "language": ["en/books", "en/mail", "en/web", "fr"],
        "piece": ["a", "c", "a", "b"],
        "count": [3, 9, 4, 2],
    }
    data = weighted_pieces(table, mixture.datasets)
    # 4 bytes of the web stand for 0.2, so the whole is 20: 12 of books, 4 of French.
    assert data.factors == pytest.approx({"en/books": 4, "en/web": 1, "fr": 2})
    assert unpacked(data) == {b"a": 16, b"b": 4}


def test_nothing_to_train_on_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no pre-tokens"):
        weighted_pieces(summed(tmp_path, {("en", "a"): 1}), {"fr": 1.0})
    with pytest.raises(InputError, match="no pre-tokens"):
        weighted_pieces(sum_counts([]), {"fr": 1.0})
