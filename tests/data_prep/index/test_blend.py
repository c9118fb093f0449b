"""Quotas exact, spread even, windows invisible."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.index.blend import blend, quotas

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(lambda counts: sum(counts) > 0)
WEIGHTS = st.dictionaries(st.text("abcdef", min_size=1), st.floats(1e-9, 1e3), min_size=1, max_size=12)


def blended(counts, window=1 << 20):
    windows = list(blend(counts, window))
    return tuple(np.concatenate([pair[side] for pair in windows]) for side in (0, 1))


@given(WEIGHTS, st.integers(0, 10**9))
def test_quotas_sum_exactly_and_are_within_one_of_the_weights(weights, samples):
    found = quotas(weights, samples)
    total = sum(map(Fraction, weights.values()))
    assert sum(found.values()) == samples
    assert all(abs(found[name] - Fraction(weight) * samples / total) < 1 for name, weight in weights.items())


def test_quotas_of_a_known_case():
    # 10 samples at 5:3:1: ideal 5.56, 3.33, 1.11; the sample that rounding leaves goes to the largest remainder.
    assert quotas({"a": 5, "b": 3, "c": 1}, 10) == {"a": 6, "b": 3, "c": 1}
    assert quotas({"b": 1, "a": 1}, 3) == {"a": 2, "b": 1}


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.floats(1e-3, 1e3), st.integers(0, 99)), min_size=1))
def test_quotas_pass_no_limit_and_still_sum_exactly(entries):
    weights = {name: weight for name, (weight, _) in entries.items()}
    limits = {name: limit for name, (_, limit) in entries.items()}
    for samples in {0, sum(limits.values()) // 2, sum(limits.values())}:
        found = quotas(weights, samples, limits)
        assert sum(found.values()) == samples
        assert all(found[name] <= limits[name] for name in found)
        if max(quotas(weights, samples)[name] - limits[name] for name in weights) < 0:
            assert found == quotas(weights, samples)


@given(COUNTS)
def test_order_is_the_naive_sort(counts):
    naive = sorted(
        (Fraction(2 * k + 1, 2 * quota), number, k) for number, quota in enumerate(counts) for k in range(quota)
    )
    datasets, samples = blended(counts)
    assert (datasets.dtype, samples.dtype) == (np.int32, np.int64)
    assert list(zip(datasets, samples, strict=True)) == [(number, k) for _, number, k in naive]


@given(COUNTS, st.integers(1, 40))
def test_windows_do_not_change_the_order(counts, window):
    for whole, pieces in zip(blended(counts), blended(counts, window), strict=True):
        assert np.array_equal(whole, pieces)


@given(COUNTS)
def test_every_prefix_holds_each_dataset_in_its_share(counts):
    datasets, _ = blended(counts)
    total = sum(counts)
    for number, quota in enumerate(counts):
        taken = np.cumsum(datasets == number)
        ideal = np.arange(1, total + 1) * quota / total
        assert np.abs(taken - ideal).max() <= len(counts)


@pytest.mark.parametrize("window", [1000, 99_991])
def test_large_coprime_quotas_over_many_windows(window):
    counts = [611_953, 1, 104_729, 7919]
    datasets, samples = blended(counts, window)
    for number, quota in enumerate(counts):
        assert np.array_equal(samples[datasets == number], np.arange(quota))
