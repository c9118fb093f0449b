"""Test the blend: exact quotas, an even spread, an order that does not depend on windows, and consecutive stages."""

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.contracts.blend import StageEntry, StageShare
from bloomery.contracts.index import open_array
from data_prep.index import _index
from data_prep.index.write_blend import blend, quotas, write_blend

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(lambda counts: sum(counts) > 0)
WEIGHTS = st.dictionaries(st.text("abcdef", min_size=1), st.floats(1e-9, 1e3), min_size=1, max_size=12)


def stage(begin, end, **shares):
    """Return a stage with (quota, first sample, taken samples) per dataset."""
    datasets = {
        name: StageShare(weight=0.5, quota=quota, first_sample=first, taken=taken)
        for name, (quota, first, taken) in shares.items()
    }
    planned = sum(share.quota for share in datasets.values())
    return StageEntry(from_sample=begin, to_sample=end, spread_to=begin + planned, datasets=datasets)


def blended(counts, window=1 << 20, samples=None):
    """Return dataset numbers and samples of one stage that ends after `samples`. Datasets are sorted by name."""
    names = [f"{number:05d}" for number in range(len(counts))]
    shares = {name: (count, 0, 0) for name, count in zip(names, counts, strict=True)}
    windows = list(blend([stage(0, sum(counts) if samples is None else samples, **shares)], names, window))
    return tuple(np.concatenate([pair[side] for pair in windows]) for side in (0, 1))


@given(WEIGHTS, st.integers(0, 10**9))
def test_quotas_sum_exactly_and_are_within_one_of_the_weights(weights, samples):
    found = quotas(weights, samples)
    total = sum(map(Fraction, weights.values()))
    assert sum(found.values()) == samples
    assert all(abs(found[name] - Fraction(weight) * samples / total) < 1 for name, weight in weights.items())


def test_the_largest_remainder_gets_the_sample_that_rounding_leaves():
    # The ideal parts of 10 samples at 5:3:1 are 5.56, 3.33 and 1.11, so dataset a has the largest remainder.
    assert quotas({"a": 5, "b": 3, "c": 1}, 10) == {"a": 6, "b": 3, "c": 1}
    assert quotas({"b": 1, "a": 1}, 3) == {"a": 2, "b": 1}


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.floats(1e-3, 1e3), st.integers(0, 99)), min_size=1))
def test_quotas_exceed_no_limit_and_still_sum_exactly(entries):
    weights = {name: weight for name, (weight, _) in entries.items()}
    limits = {name: limit for name, (_, limit) in entries.items()}
    for samples in {0, sum(limits.values()) // 2, sum(limits.values())}:
        found = quotas(weights, samples, limits)
        assert sum(found.values()) == samples
        assert all(found[name] <= limits[name] for name in found)
        if max(quotas(weights, samples)[name] - limits[name] for name in weights) < 0:
            assert found == quotas(weights, samples)


@given(COUNTS)
def test_the_order_equals_a_plain_sort(counts):
    naive = sorted(
        (Fraction(2 * k + 1, 2 * quota), number, k) for number, quota in enumerate(counts) for k in range(quota)
    )
    datasets, samples = blended(counts)
    assert (datasets.dtype, samples.dtype) == (np.int16, np.uint32)
    assert list(zip(datasets, samples, strict=True)) == [(number, k) for _, number, k in naive]


@given(COUNTS, st.integers(1, 40), st.data())
def test_windows_and_an_earlier_end_do_not_change_the_order(counts, window, data):
    samples = data.draw(st.integers(1, sum(counts)))
    for whole, pieces in zip(blended(counts), blended(counts, window, samples), strict=True):
        assert np.array_equal(whole[:samples], pieces)


@given(COUNTS)
def test_every_prefix_holds_each_dataset_in_its_share(counts):
    datasets, _ = blended(counts)
    total = sum(counts)
    for number, quota in enumerate(counts):
        taken = np.cumsum(datasets == number)
        ideal = np.arange(1, total + 1) * quota / total
        assert np.abs(taken - ideal).max() <= len(counts)


@pytest.mark.parametrize("window", [1000, 99_991])
def test_large_coprime_quotas_are_exact_over_many_windows(window):
    counts = [611_953, 1, 104_729, 7919]
    datasets, samples = blended(counts, window)
    for number, quota in enumerate(counts):
        assert np.array_equal(samples[datasets == number], np.arange(quota))


def test_equal_quotas_alternate_in_the_order_of_dataset_numbers():
    datasets, samples = blended([100] * 300, window=7)
    assert np.array_equal(datasets, np.tile(np.arange(300), 100))
    assert np.array_equal(samples, np.repeat(np.arange(100), 300))


@pytest.mark.parametrize("quotas_", [[2**59, 2**59 + 1, 3 * 2**57], [2**33 + 1, 2**33, 2**33 - 1], [2**61 - 1, 1]])
def test_places_beyond_64_bits_are_compared_exactly(quotas_):
    """The places of these quotas differ by less than a float or a 64-bit product can represent."""
    planned = sum(quotas_)
    for begin in (0, planned // 2 - 50, planned - 100):
        number, zero = np.arange(len(quotas_)), np.zeros(len(quotas_), dtype=np.int64)
        datasets, samples = _index.blend(np.array(quotas_), number, zero, planned, begin, begin + 100)
        places = [
            (Fraction(2 * int(k) + 1, 2 * quotas_[number]), int(number))
            for number, k in zip(datasets, samples, strict=True)
        ]
        assert places == sorted(places)
        assert all(Fraction(begin, planned) <= place < Fraction(begin + 100, planned) for place, _ in places)
        assert abs(len(places) - 100) <= len(quotas_)


@pytest.mark.parametrize(
    ("counts", "planned", "begin", "end", "what"),
    [
        ([[3]], 3, 0, 3, "1-D"),
        ([3], 0, 0, 0, "planned must lie between"),
        ([3], 2**61 + 1, 0, 1, "planned must lie between"),
        ([4], 3, 0, 3, "quotas must lie between"),
        ([-1], 3, 0, 3, "quotas must lie between"),
        ([3], 3, 2, 1, "slots must lie"),
        ([3], 3, 0, 4, "slots must lie"),
    ],
)
def test_the_kernel_refuses_an_invalid_stage(counts, planned, begin, end, what):
    own = np.array(counts, dtype=np.int64)
    with pytest.raises(ValueError, match=what):
        _index.blend(own, np.zeros_like(own), np.zeros_like(own), planned, begin, end)


@pytest.mark.parametrize(
    ("numbers", "firsts", "what"),
    [([0], [0, 0], "one entry a dataset"), ([-1, 0], [0, 0], "numbers"), ([0, 1], [0, 2**61 + 1], "firsts")],
)
def test_the_kernel_refuses_invalid_numbers_of_datasets_and_samples(numbers, firsts, what):
    with pytest.raises(ValueError, match=what):
        _index.blend(np.array([1, 1]), np.array(numbers), np.array(firsts), 2, 0, 2)


def test_stages_continue_after_the_previous_stage_and_ties_are_sorted_by_name(tmp_path):
    # Stage 0 is spread over 8 samples and ends after 3. Both stages read a, b, a. The names are not sorted.
    stages = [stage(0, 3, a=(4, 0, 2), b=(4, 0, 1)), stage(3, 6, a=(2, 2, 2), b=(1, 1, 1))]
    windows = list(blend(stages, ["b", "a"]))
    found = [(int(n), int(k)) for window in windows for n, k in zip(*window, strict=True)]
    assert found == [(1, 0), (0, 0), (1, 1), (1, 2), (0, 1), (1, 3)]
    entries = write_blend(tmp_path, "arrays/x", stages, ["b", "a"])
    assert [entry.dtype for entry in entries] == ["int16", "uint32"]
    assert [open_array(tmp_path, entry).tolist() for entry in entries] == [
        list(side) for side in zip(*found, strict=True)
    ]


def test_arrays_have_wider_types_for_larger_numbers(tmp_path):
    names = [f"{number:05d}" for number in range(2**15 + 1)]
    many = [stage(0, 2, **{names[0]: (1, 2**32, 1), names[-1]: (1, 0, 1)})]
    entries = write_blend(tmp_path, "arrays", many, names)
    assert [entry.dtype for entry in entries] == ["int32", "int64"]
    assert [open_array(tmp_path, entry).tolist() for entry in entries] == [[0, 2**15], [2**32, 0]]
    few = write_blend(tmp_path, "other", [stage(0, 1, a=(1, 2**32 - 1, 1))], ["a"])
    assert (few[1].dtype, open_array(tmp_path, few[1]).tolist()) == ("uint32", [2**32 - 1])


def test_a_blend_is_computed_window_by_window():
    endless = stage(0, 2**51, a=(2**50, 0, 2**50), b=(2**50, 0, 2**50))
    (numbers, samples), _ = islice(blend([endless], ["a", "b"], 1000), 2)
    assert (len(numbers), samples.dtype) == (1000, np.int64)
