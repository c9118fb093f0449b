"""The order of documents and samples: exact, uniform, whole epochs, and the same however much is asked for."""

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
def test_every_epoch_reads_every_document_once_up_to_the_last_sample_s_end(lengths, sequence_length, quota):
    order = made(lengths, sequence_length, quota)
    found, unique = documents(order), len(lengths)
    assert len(found) == order.entries
    whole = sorted(range(100, 100 + unique))
    for begin in range(0, len(found) // unique * unique, unique):
        assert sorted(found[begin : begin + unique]) == whole
    assert len(set(found[len(found) // unique * unique :])) == len(found) % unique
    tokens = [lengths[number - 100] for number in found]
    assert sum(tokens) > order.samples * sequence_length, "the last sample's last token is there"
    assert sum(tokens[:-1]) <= order.samples * sequence_length, "and no document beyond it"


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@given(lengths=LENGTHS, sequence_length=st.integers(1, 20), quota=st.integers(1, 60))
def test_samples_are_shuffled_in_blocks_of_the_epoch_that_they_start_in(block, lengths, sequence_length, quota):
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
    assert blocks[-1][0] < quota <= blocks[-1][1], "the fewest blocks that hold the samples"
    assert order.epochs == epoch(quota - 1) + 1
    last = blocks[-1][1]
    assert last - blocks[-1][0] == block or epoch(last) > epoch(last - 1), "the last block is whole"


@given(LENGTHS, st.integers(1, 20), st.integers(1, 60), st.integers(0, 200))
def test_asking_for_more_only_appends(lengths, sequence_length, quota, more):
    short, long = made(lengths, sequence_length, quota), made(lengths, sequence_length, quota + more)
    assert documents(long)[: short.entries] == documents(short)
    assert samples(long)[: short.samples] == samples(short)


def test_seeds_names_and_epochs_have_orders_of_their_own():
    lengths = [1] * 50
    order = documents(made(lengths, 1, 100))
    assert order[:50] != order[50:100]
    assert order[:50] != sorted(order[:50])
    assert order != documents(made(lengths, 1, 100, seed=2))
    assert order != documents(made(lengths, 1, 100, key="y"))
    assert [number - 100 for number in order[:50]] != samples(made(lengths, 1, 100))[:50]


WORD = 2**64


def mixed(value):
    """SplitMix64's finaliser (Steele, Lea and Flood 2014)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB % WORD
    return value ^ value >> 31


def random_at(key, counter):
    return mixed((key + (counter + 1) * 0x9E3779B97F4A7C15) % WORD)


def child_key(key, number):
    return mixed(mixed(key) ^ mixed(WORD - 1 - number))


def permuted(size, key):
    """Buckets of at most 2^15 items on average by leading bits, each shuffled by Fisher and Yates (Lemire's bound)."""
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
def test_the_order_of_a_key_is_what_it_has_always_been(size):
    """Against the algorithm in plain Python: a training that goes on with a later version reads the same samples."""
    rows = np.arange(size, dtype=np.uint64)
    found = _index.EpochOrder(rows, 42, 7, ANY_BAND).take(size, 0)
    assert found.tolist() == permuted(size, child_key(42, 7))
    shuffled = _index.SampleOrder(size, 1, 42, 7, 50_000).take(size).tolist()
    for number, begin in enumerate(range(0, size, 50_000)):
        block = permuted(min(50_000, size - begin), child_key(child_key(42, 7), number))
        assert shuffled[begin : begin + 50_000] == [7 * size + begin + item for item in block]


@given(LENGTHS, st.integers(0, 3), st.integers(0, 300))
def test_the_place_of_a_token_is_where_the_order_has_it(lengths, epoch, token):
    token %= sum(lengths)
    rows = rows_of(lengths)
    order = _index.EpochOrder(rows, 5, epoch, ANY_BAND).take(len(rows), 0)
    ends = np.cumsum(tokens_of(order))
    assert _index.place_of(rows, 5, epoch, token) == int(np.searchsorted(ends, token, side="right"))


def test_the_place_of_a_token_among_buckets():
    rows = packed(np.arange(100_000), np.random.default_rng(1).integers(0, 50, 100_000))
    ends = np.cumsum(tokens_of(_index.EpochOrder(rows, 5, 2, ANY_BAND).take(100_000, 0)))
    for token in [0, 1, 12_345, 999_999, int(ends[50_000]), int(ends[-1]) - 1]:
        assert _index.place_of(rows, 5, 2, token) == int(np.searchsorted(ends, token, side="right"))


@pytest.mark.parametrize("size", [1 << 17, (1 << 17) + 12_345])
def test_a_shuffle_in_buckets_is_a_permutation_however_few_are_held(size):
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
    """Chi-squared over the 24 orders of four documents: 23 degrees of freedom, 49.7 at one in a thousand."""
    draws = 24_000
    found = _index.EpochOrder(np.arange(4, dtype=np.uint64), 5, 0, ANY_BAND).take(4 * draws, 0).reshape(-1, 4)
    counts = Counter(map(tuple, found.tolist()))
    assert set(counts) == set(permutations(range(4)))
    assert sum((count - draws / 24) ** 2 / (draws / 24) for count in counts.values()) < 49.7


def test_items_of_a_large_shuffle_go_anywhere():
    """Where an item goes, in sixteenths: chi-squared, 225 degrees of freedom, 297 at one in a thousand."""
    size = 1 << 18
    found = _index.EpochOrder(np.arange(size, dtype=np.uint64), 6, 0, ANY_BAND).take(size, 0)
    cells = np.bincount((found >> np.uint64(14)).astype(np.int64) * 16 + np.arange(size) // (size // 16), minlength=256)
    assert ((cells - size / 256) ** 2 / (size / 256)).sum() < 297


def test_samples_of_a_few_tokens_read_for_ever():
    """Three tokens, read a million times for samples of 2,048: a sample each 683 epochs."""
    order = made([2, 1], 2048, 1_500)
    assert order.epochs == (1_499 * 2048) // 3 + 1
    assert len(documents(order)) == order.entries
    assert samples(order) == list(range(1_500))


def test_positions_beyond_32_bits():
    """An order is begun at any epoch: document positions, tokens and samples of 2^33 and more, without those before."""
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
def test_orders_of_nothing_are_refused(make):
    with pytest.raises(ValueError, match="must"):
        make()


def test_the_check_of_an_order_finds_what_is_out_of_turn():
    def first_wrong(numbers, unique=3):
        return _index.EpochCheck(10, unique).advance(np.array(numbers, np.uint32))

    assert first_wrong([4, 2, 7, 7, 4, 2, 2, 4]) == -1
    assert first_wrong([4, 2, 4]) == 2, "twice in the first epoch"
    assert first_wrong([4, 2, 7, 2, 2]) == 4, "twice in the second"
    assert first_wrong([4, 2, 7, 4, 5]) == 4, "of another set"
    assert first_wrong([4, 2, 7, 7, 4, 2, 2, 2]) == 7, "twice in the third"
    assert first_wrong([10]) == 0, "beyond the index"
    check = _index.EpochCheck(70, 2)
    assert check.advance(np.array([69, 3], np.int64)) == -1
    assert check.members().tolist() == [1 << 3, 1 << 5]
    assert _index.EpochCheck(70, 2).advance(np.array([-1], np.int64)) == 0
