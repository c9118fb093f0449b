"""Test the sum of many count tables, weighted by the mixture."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from data_prep.formats.mixture import Mixture
from data_prep.formats.shard import write_table
from data_prep.tokenizer.find_count_tables import CountTable
from data_prep.tokenizer.merge_counts import COUNT_SCHEMA
from data_prep.tokenizer.sums import Sums
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN
from data_prep.tokenizer.weigh_counts import CountedPieces, WeightedPieces, language_factors

PIECES = st.text("ab é人<s>/", min_size=1, max_size=6)
COUNTS = st.dictionaries(
    st.tuples(st.sampled_from(["en", "fr", "hi"]), PIECES), st.integers(1, 10**9), min_size=1, max_size=12
)


def table_of(counts):
    rows = sorted((language, piece, count) for (language, piece), count in counts.items())
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, COUNT_SCHEMA, strict=True)]
    return pa.table(arrays, schema=COUNT_SCHEMA)


def write(folder, counts_of_tables):
    tables = []
    for name, counts in counts_of_tables.items():
        path = folder / f"{name}.parquet"
        write_table(path, table_of(counts), kind="", inputs={}, parameters="")
        tables.append(CountTable(path, name, name))
    return tables


def weigh(folder, counts_of_tables, weights, mixture=None, pending_rows=None):
    """Weigh the tables, given as a mapping of names to counts.

    Return rows of (piece, count) in the order of bytes, the factor of each dataset, and the bytes of each dataset.
    """
    with Sums(folder, pending_rows) as sums:
        counted = CountedPieces(sums)
        counted.read(write(folder, counts_of_tables), mixture)
        data = WeightedPieces.of(counted, weights)
        rows = [row for pieces, counts in data for row in zip(pieces.to_pylist(), counts.tolist(), strict=True)]
        assert rows == [row for pieces, counts in data for row in zip(pieces.to_pylist(), counts.tolist(), strict=True)]
    return rows, data.factors, counted.bytes


WEIGHTS = {"en": 0.5, "fr": 0.3, "hi": 0.2}


@pytest.mark.slow
@given(COUNTS, COUNTS, st.integers(1, 8))
def test_the_order_and_number_of_tables_and_the_memory_do_not_change_the_result(
    tmp_path_factory, first, second, pending
):
    one = weigh(tmp_path_factory.mktemp("x"), {"a": Counter(first) + Counter(second)}, WEIGHTS)
    two = weigh(tmp_path_factory.mktemp("x"), {"a": first, "b": second}, WEIGHTS, pending_rows=pending)
    three = weigh(tmp_path_factory.mktemp("x"), {"a": second, "b": first}, WEIGHTS)
    assert one == two == three


@given(COUNTS)
def test_weighted_languages_have_the_shares_of_the_mixture(tmp_path_factory, counts):
    _, factors, sizes = weigh(tmp_path_factory.mktemp("x"), {"a": counts}, WEIGHTS)
    assert min(factors.values()) == pytest.approx(1.0)
    shares = {code: size * factors[code] / WEIGHTS[code] for code, size in sizes.items()}
    assert max(shares.values()) == pytest.approx(min(shares.values()))


def cut_specials(counts):
    """Return the counts by (language, piece) after special tokens are removed from the pieces."""
    parts = Counter()
    for (language, piece), count in counts.items():
        for part in re.split(SPECIAL_PATTERN, piece):
            if part:
                parts[language, part.encode()] += count
    return parts


@given(COUNTS)
def test_weighted_counts_equal_their_definition(tmp_path_factory, counts):
    rows, factors, _ = weigh(tmp_path_factory.mktemp("x"), {"a": counts}, WEIGHTS)
    wanted = Counter()
    for (language, part), count in cut_specials(counts).items():
        wanted[part] += max(1, round(count * factors[language]))
    assert rows == sorted(wanted.items())


@given(COUNTS)
def test_without_weights_counts_do_not_change(tmp_path_factory, counts):
    rows, factors, sizes = weigh(tmp_path_factory.mktemp("x"), {"a": counts}, None)
    wanted = Counter()
    for (_, part), count in cut_specials(counts).items():
        wanted[part] += count
    assert rows == sorted(wanted.items())
    assert factors == dict.fromkeys(sorted(sizes), 1.0)


def test_without_weights_counts_beyond_float_precision_stay_exact(tmp_path):
    rows, _, _ = weigh(tmp_path, {"a": {("en", "x"): 2**60 + 1, ("fr", "x"): 2}}, None)
    assert rows == [(b"x", 2**60 + 3)]


def test_no_piece_spells_a_special_token(tmp_path):
    counts = {("en", " <s>old</s>"): 3, ("en", "<<s>s>"): 2, ("en", "<reserved_12>x"): 1, ("en", "s>"): 1}
    rows, _, _ = weigh(tmp_path, {"a": counts}, {"en": 1.0})
    assert dict(rows) == {b" ": 3, b"old": 3, b"<": 2, b"s>": 3, b"x": 1}


def test_a_large_corpus_stays_within_64_bits():
    # ROOTS' English text (485 GB) has a tiny weight, and a small language has a large one. The weighted total is scaled
    # to 2^60 bytes.
    factors = language_factors({"en": 484_953_009_124, "tum": 170_265}, {"en": 1e-9, "tum": 1.0})
    assert 484_953_009_124 * factors["en"] + 170_265 * factors["tum"] == pytest.approx(2**60, rel=1e-6)
    assert np.iinfo(np.int64).max > 2**60


def test_a_language_without_weight_is_left_out(tmp_path):
    counts = {("en", "a"): 1, ("fr", "b"): 1, ("hi", "c"): 1}
    assert weigh(tmp_path, {"a": counts}, {"en": 1.0, "fr": 0.0})[0] == [(b"a", 1)]


def test_a_language_mixed_by_source_is_weighed_by_source(tmp_path):
    mixture = Mixture(languages={"en": 0.8, "fr": 0.2}, sources={"en": {"web": 0.2, "books": 0.6}}, max_epochs=None)
    counted = {"web": {("en", "a"): 4, ("fr", "b"): 2}, "books": {("en", "a"): 3}, "mail": {("en", "c"): 9}}
    rows, factors, sizes = weigh(tmp_path, counted, mixture.datasets, mixture)
    assert sizes == {"en/web": 4, "fr": 2, "en/books": 3, "en/mail": 9}
    # The 4 bytes of the web keep their count, so the weights 0.2, 0.6 and 0.2 give 12 bytes of books and 4 of French.
    assert factors == pytest.approx({"en/books": 4, "en/web": 1, "fr": 2})
    assert rows == [(b"a", 16), (b"b", 4)]


def test_nothing_to_train_on_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no pre-tokens"):
        weigh(tmp_path, {"a": {("en", "a"): 1}}, {"fr": 1.0})
    with pytest.raises(InputError, match="no pre-tokens"):
        weigh(tmp_path, {}, {"fr": 1.0})
    with pytest.raises(InputError, match="no pre-tokens"):
        weigh(tmp_path, {}, None)


@pytest.mark.parametrize("counts", [{("en", "ab"): 2**62}, {("en", "a"): 2**62, ("fr", "a"): 2**61}])
def test_counts_that_overflow_are_refused(tmp_path, counts):
    with pytest.raises(InputError, match="overflow 64 bits"):
        weigh(tmp_path, {"a": counts}, None)


def test_no_spilled_file_is_left_on_the_disk(tmp_path):
    counts = {("en", f"p{number}"): 1 for number in range(500)}
    with Sums(tmp_path, 20) as sums:
        counted = CountedPieces(sums)
        tables = write(tmp_path, {"a": counts})
        counted.read(tables, None)
        assert sums.runs > 0
        assert sum(len(pieces) for pieces, _ in WeightedPieces.of(counted, None)) == 500
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == ["a.json", "a.parquet"]


@pytest.mark.parametrize(
    "weights", [{"en": 100.0, "fr": 1e-15}, {"en": 1e308, "fr": 1e-308}, {"en": 1e300, "fr": 1e300}]
)
def test_weights_that_no_mixture_would_have_do_not_overflow(tmp_path, weights):
    rows, factors, sizes = weigh(tmp_path, {"a": {("en", "ab"): 10**9, ("fr", "b"): 10**6}}, weights)
    assert sum(size * factors[code] for code, size in sizes.items()) <= 1.01 * 2**60
    assert all(0 < count < 2**61 for _, count in rows)
