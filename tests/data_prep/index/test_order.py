"""Test the order of documents and samples: it equals a plain reference, is uniform, has whole epochs, and does not
change if more samples are needed."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import packed

from data_prep.index import _index
from data_prep.index import order as order_module
from data_prep.index.order import CorpusOrder, EpochsOrder, samples_in
from data_prep.index.split import numbers_of, tokens_of

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(any)
ANY_BAND = 1 << 20


def rows_of(lengths):
    return packed(np.arange(len(lengths)) + 100, np.array(lengths))


def made(lengths, sequence_length, quota, seed=1, key="x"):
    return EpochsOrder(rows_of(lengths), sum(lengths), sequence_length, quota, key, seed)


def documents(order):
    return [number for piece in order.documents() for number in numbers_of(piece).tolist()]


def samples(order):
    return [number for piece in order.shuffle() for number in piece.tolist()]


@given(LENGTHS, st.integers(1, 20), st.integers(1, 60))
def test_every_epoch_reads_every_document_once_until_the_last_sample_ends(lengths, sequence_length, quota):
    order = made(lengths, sequence_length, quota)
    found, unique = documents(order), len(lengths)
    assert len(found) == order.entries
    whole = sorted(range(100, 100 + unique))
    for begin in range(0, len(found) // unique * unique, unique):
        assert sorted(found[begin : begin + unique]) == whole
    assert len(set(found[len(found) // unique * unique :])) == len(found) % unique
    tokens = [lengths[number - 100] for number in found]
    assert sum(tokens) > order.samples * sequence_length, "the documents must contain the last token of the last sample"
    assert sum(tokens[:-1]) <= order.samples * sequence_length, "no document may begin after the last sample"


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@given(lengths=LENGTHS, sequence_length=st.integers(1, 20), quota=st.integers(1, 60))
def test_samples_are_shuffled_in_blocks_within_the_epoch_in_which_they_start(block, lengths, sequence_length, quota):
    tokens = sum(lengths)

    def epoch(sample):
        return sample * sequence_length // tokens

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_module, "BLOCK", block)
        order = made(lengths, sequence_length, quota)
        found = samples(order)
    assert sorted(found) == list(range(order.samples))
    blocks, begin = [], 0
    while begin < len(found):
        end = begin + 1
        while end < len(found) and end - begin < block and epoch(end) == epoch(begin):
            end += 1
        blocks.append((begin, end))
        begin = end
    assert all(sorted(found[begin:end]) == list(range(begin, end)) for begin, end in blocks)
    assert blocks[-1][0] < quota <= blocks[-1][1], "there must be no more blocks than the samples need"
    assert order.epochs == epoch(quota - 1) + 1
    last = blocks[-1][1]
    assert last - blocks[-1][0] == block or epoch(last) > epoch(last - 1), "the last block must be complete"


@given(LENGTHS, st.integers(1, 20), st.integers(1, 60), st.integers(0, 200))
def test_more_samples_are_only_appended_to_the_order(lengths, sequence_length, quota, more):
    short, long = made(lengths, sequence_length, quota), made(lengths, sequence_length, quota + more)
    assert documents(long)[: short.entries] == documents(short)
    assert samples(long)[: short.samples] == samples(short)


def test_every_seed_name_and_epoch_has_its_own_order():
    lengths = [1] * 50
    order = documents(made(lengths, 1, 100))
    assert order[:50] != order[50:100]
    assert order[:50] != sorted(order[:50])
    assert order != documents(made(lengths, 1, 100, seed=2))
    assert order != documents(made(lengths, 1, 100, key="y"))
    assert [number - 100 for number in order[:50]] != samples(made(lengths, 1, 100))[:50]


WORD = 2**64


def mixed(value):
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB % WORD
    return value ^ value >> 31


def random_at(key, counter):
    return mixed((key + (counter + 1) * 0x9E3779B97F4A7C15) % WORD)


def child_key(key, number):
    return mixed(mixed(key) ^ mixed(WORD - 1 - number))


def permuted(size, key):
    """Return the permutation of `size` items that a key gives, in plain Python.

    The leading bits of a random number give the bucket of an item; buckets have at most 2^15 items on average. Each
    bucket is shuffled with the algorithm of Fisher and Yates and Lemire's bounded random numbers.
    """
    bits = max(0, (-(-size // (1 << 15)) - 1).bit_length())
    buckets = [[] for _ in range(1 << bits)]
    for item in range(size):
        buckets[random_at(key, item) >> (64 - bits) if bits else 0].append(item)
    for number, items in enumerate(buckets):
        counter = 0
        for left in range(len(items), 1, -1):
            while True:
                product = (random_at(child_key(key, number), counter) >> 32) * left
                counter += 1
                if product % 2**32 >= 2**32 % left:
                    break
            at = product >> 32
            items[left - 1], items[at] = items[at], items[left - 1]
    return [item for items in buckets for item in items]


@pytest.mark.parametrize("size", [1, 2, 1000, 1 << 15, (1 << 15) + 1, 80_000])
def test_the_order_of_a_key_never_changes(size):
    """Compare with plain Python, so that a training that resumes with a later version reads the same samples."""
    rows = np.arange(size, dtype=np.uint64)
    found = _index.EpochOrder(rows, 42, 7, ANY_BAND).take(size, 0)
    assert found.tolist() == permuted(size, child_key(42, 7))
    shuffled = _index.SampleOrder(size, 1, 42, 7, 50_000).take(size).tolist()
    for number, begin in enumerate(range(0, size, 50_000)):
        block = permuted(min(50_000, size - begin), child_key(child_key(42, 7), number))
        assert shuffled[begin : begin + 50_000] == [7 * size + begin + item for item in block]


@given(LENGTHS, st.integers(0, 3), st.integers(0, 300))
def test_place_of_returns_the_position_of_a_token_in_the_order(lengths, epoch, token):
    token %= sum(lengths)
    rows = rows_of(lengths)
    order = _index.EpochOrder(rows, 5, epoch, ANY_BAND).take(len(rows), 0)
    ends = np.cumsum(tokens_of(order))
    assert _index.place_of(rows, 5, epoch, token) == int(np.searchsorted(ends, token, side="right"))


def test_place_of_returns_the_position_of_a_token_among_many_buckets():
    rows = packed(np.arange(100_000), np.random.default_rng(1).integers(0, 50, 100_000))
    ends = np.cumsum(tokens_of(_index.EpochOrder(rows, 5, 2, ANY_BAND).take(100_000, 0)))
    for token in [0, 1, 12_345, 999_999, int(ends[50_000]), int(ends[-1]) - 1]:
        assert _index.place_of(rows, 5, 2, token) == int(np.searchsorted(ends, token, side="right"))


@pytest.mark.parametrize("size", [1 << 17, (1 << 17) + 12_345])
def test_a_shuffle_does_not_depend_on_the_number_of_rows_in_memory(size):
    rows = np.arange(size, dtype=np.uint64) * np.uint64(3)
    whole = _index.EpochOrder(rows, 9, 0, ANY_BAND).take(2 * size, 0)
    for epoch in (whole[:size], whole[size:]):
        assert np.array_equal(np.sort(epoch), rows)
    assert not np.array_equal(whole[:size], whole[size:])
    narrow = _index.EpochOrder(rows, 9, 0, 1)
    pieces = [narrow.take(count, 0) for count in (1, size // 3, size, 2 * size - 1 - size // 3 - size)]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert np.array_equal(_index.EpochOrder(rows, 9, 1, 1).take(1000, 1000), whole[size : size + 1000])


def test_every_permutation_is_equally_likely():
    """Count the 24 orders of four documents. Chi-squared, with 23 degrees of freedom, exceeds 49.7 once in 1,000."""
    draws = 24_000
    found = _index.EpochOrder(np.arange(4, dtype=np.uint64), 5, 0, ANY_BAND).take(4 * draws, 0).reshape(-1, 4)
    counts = Counter(map(tuple, found.tolist()))
    assert set(counts) == set(permutations(range(4)))
    assert sum((count - draws / 24) ** 2 / (draws / 24) for count in counts.values()) < 49.7


def test_a_large_shuffle_distributes_items_uniformly():
    """Count how many items move from each sixteenth of the input to each sixteenth of the output.

    Chi-squared, with 225 degrees of freedom, exceeds 297 once in 1,000.
    """
    size = 1 << 18
    found = _index.EpochOrder(np.arange(size, dtype=np.uint64), 6, 0, ANY_BAND).take(size, 0)
    cells = np.bincount((found >> np.uint64(14)).astype(np.int64) * 16 + np.arange(size) // (size // 16), minlength=256)
    assert ((cells - size / 256) ** 2 / (size / 256)).sum() < 297


def test_few_tokens_are_repeated_for_many_samples():
    """Three tokens are read about a million times: each sample of 2,048 tokens takes 683 epochs."""
    order = made([2, 1], 2048, 1_500)
    assert order.epochs == (1_499 * 2048) // 3 + 1
    assert len(documents(order)) == order.entries
    assert samples(order) == list(range(1_500))


def test_positions_may_exceed_32_bits():
    """An order can begin at any epoch, so the test reaches positions beyond 2^32 without computing earlier ones."""
    lengths, sequence_length, epoch = [3, 5, 4], 7, 1 << 32
    rows = rows_of(lengths)
    from_start = _index.EpochOrder(rows, 3, epoch, ANY_BAND).take(9, 0)
    token, position = epoch * 12, epoch * 3
    walk = _index.SampleWalk(sequence_length, 1 << 40, position, token)
    starts = walk.advance(from_start, True)
    assert starts.dtype == np.int64
    expected, at = [], token
    for place, row in enumerate(from_start.tolist(), position):
        length = row & (2**31 - 1)
        expected += [(place, t - at) for t in range(at, at + length) if t % sequence_length == 0]
        at += length
    assert [tuple(pair) for pair in starts.tolist()] == expected
    assert starts[0, 0] >= 2**33
    order = _index.SampleOrder(12, sequence_length, 3, epoch, ANY_BAND).take(6)
    first = -(-token // sequence_length)
    assert sorted(order.tolist())[0] == first > 2**32
    assert (np.diff((order.astype(np.int64) * sequence_length) // 12) >= 0).all()


@given(LENGTHS, st.integers(1, 12), st.integers(0, 20))
def test_a_validation_set_is_spread_over_its_text_in_corpus_order(lengths, sequence_length, most):
    rows = rows_of(lengths)
    order = CorpusOrder(rows, sum(lengths), sequence_length, most)
    assert documents(order) == numbers_of(rows).tolist()
    assert order.samples == samples_in(sum(lengths), sequence_length)
    kept = min(most, order.samples)
    assert samples(order) == [place * order.samples // kept for place in range(kept)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: _index.EpochOrder(np.empty(0, np.uint64), 1, 0, 1),
        lambda: _index.EpochOrder(np.zeros((1, 1), np.uint64), 1, 0, 1),
        lambda: _index.EpochOrder(np.zeros(1, np.uint64), 1, 0, 0),
        lambda: _index.SampleOrder(0, 1, 1, 0, 1),
        lambda: _index.SampleOrder(1, 0, 1, 0, 1),
        lambda: _index.SampleWalk(0, 1, 0, 0),
        lambda: _index.EpochCheck(5, 0),
    ],
)
def test_orders_with_invalid_arguments_are_refused(make):
    with pytest.raises(ValueError, match="must"):
        make()


def test_epoch_check_finds_the_first_wrong_document():
    def first_wrong(numbers, unique=3):
        return _index.EpochCheck(10, unique).advance(np.array(numbers, np.uint32))

    assert first_wrong([4, 2, 7, 7, 4, 2, 2, 4]) == -1
    assert first_wrong([4, 2, 4]) == 2, "document 4 is repeated in the first epoch"
    assert first_wrong([4, 2, 7, 2, 2]) == 4, "document 2 is repeated in the second epoch"
    assert first_wrong([4, 2, 7, 4, 5]) == 4, "document 5 is not in the first epoch"
    assert first_wrong([4, 2, 7, 7, 4, 2, 2, 2]) == 7, "document 2 is repeated in the third epoch"
    assert first_wrong([10]) == 0, "document 10 is not in the index"
    check = _index.EpochCheck(70, 2)
    assert check.advance(np.array([69, 3], np.int64)) == -1
    assert check.members().tolist() == [1 << 3, 1 << 5]
    assert _index.EpochCheck(70, 2).advance(np.array([-1], np.int64)) == 0
