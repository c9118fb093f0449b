"""Compare the compiled encoder with a plain implementation of BPE, with arbitrary bytes and merges."""

import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.tokenizer import _bpe

pytestmark = pytest.mark.slow

BYTES = np.arange(256, dtype=np.int32)[::-1] + 1000
"""Token id of each byte. The ids differ from the values of the bytes and have another order."""
Merges = list[tuple[int, int, int]]


def encoder(merges: Merges, preset: str = "bloom", split_digits: bool = False) -> _bpe.Encoder:
    return _bpe.Encoder(BYTES, np.array(merges, np.int32).reshape(-1, 3), preset, split_digits)


def encode(kernel: _bpe.Encoder, texts: list[bytes], end: int = -1) -> list[list[int]]:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    tokens, lengths = kernel.encode(b"".join(texts), offsets, end)
    assert (tokens.dtype, lengths.dtype) == (np.int32, np.int64)
    assert lengths.sum() == len(tokens)
    ends = np.cumsum(lengths)
    return [tokens[a:b].tolist() for a, b in zip(ends - lengths, ends, strict=True)]


def plain_bpe(piece: bytes, merges: Merges) -> list[int]:
    """Merge the pair of lowest rank, the leftmost one on ties, until no pair can be merged."""
    ranks = {(left, right): (rank, made) for rank, (left, right, made) in enumerate(merges)}
    tokens = [int(BYTES[byte]) for byte in piece]
    while found := [(ranks[pair][0], at) for at, pair in enumerate(pairwise(tokens)) if pair in ranks]:
        _, at = min(found)
        tokens[at : at + 2] = [ranks[tokens[at], tokens[at + 1]][1]]
    return tokens


def pieces_of(text: bytes, preset: str, split_digits: bool) -> list[bytes]:
    ends = _bpe.piece_ends(text, preset, split_digits).tolist()
    return [text[a:b] for a, b in pairwise([0, *ends])]


@st.composite
def merge_lists(draw: st.DrawFn) -> Merges:
    """Draw merges of a few bytes. Each merge joins two existing tokens, and ids have a random order."""
    spellings = {bytes([byte]): int(BYTES[byte]) for byte in b"ab \xe4\xba"}
    merges: Merges = []
    free = draw(st.permutations(range(64)))
    for made in free[: draw(st.integers(0, 40))]:
        left, right = (draw(st.sampled_from(sorted(spellings))) for _ in "12")
        if left + right not in spellings:
            merges.append((spellings[left], spellings[right], made))
            spellings[left + right] = made
    return draw(st.permutations(merges))


@given(merge_lists(), st.lists(st.text("ab 人", max_size=200).map(str.encode) | st.binary(max_size=60), max_size=4))
def test_tokens_are_those_of_plain_bpe_piece_by_piece(merges, texts):
    for preset, split_digits in (("bloom", False), ("modern", True)):
        kernel = encoder(merges, preset, split_digits)
        wanted = [
            [token for piece in pieces_of(text, preset, split_digits) for token in plain_bpe(piece, merges)]
            for text in texts
        ]
        assert encode(kernel, texts) == wanted
        assert encode(kernel, texts) == wanted, "the second call uses the cache of pieces"
        assert encode(kernel, texts, 7) == [[*tokens, 7] for tokens in wanted]


def doubling() -> tuple[Merges, dict[int, bytes]]:
    """Return merges that join `a` into runs of 2, 4, 8, ... and make `ab` and `abab`, and the spelling of each
    token."""
    a, b = int(BYTES[ord("a")]), int(BYTES[ord("b")])
    merges = [(a, b, 0), (0, 0, 1)]
    spelling = {int(BYTES[byte]): bytes([byte]) for byte in range(256)} | {0: b"ab", 1: b"abab"}
    last = a
    for made in range(2, 12):
        merges.append((last, last, made))
        spelling[made] = spelling[last] * 2
        last = made
    return merges, spelling


def test_the_tokens_of_any_byte_string_spell_that_string():
    merges, spelling = doubling()
    rng = np.random.default_rng(0)
    texts = [bytes([byte]) for byte in range(256)] + [b"", bytes(range(256)), b"\xff\xfe" * 500, b"\0" * 300]
    texts += [rng.bytes(int(size)) for size in rng.integers(0, 3000, 100)]
    texts += [bytes(rng.choice([32, 97, 98, 0xE4, 0xBA, 0xF0], size=int(size))) for size in rng.integers(0, 900, 100)]
    for preset in ("bloom", "modern"):
        for text, tokens in zip(texts, encode(encoder(merges, preset), texts), strict=True):
            assert b"".join(spelling[token] for token in tokens) == text


@pytest.mark.parametrize("length", [*range(94, 99), *range(126, 131), 700])
def test_short_cached_and_long_pieces_are_merged_alike(length):
    merges, _ = doubling()
    rng = np.random.default_rng(length)
    pieces = [b"a" * length, (b"ab" * length)[:length], bytes(rng.choice([97, 98], size=length))]
    kernel = encoder(merges)
    for _ in range(2):
        assert encode(kernel, pieces) == [plain_bpe(piece, merges) for piece in pieces]


def test_a_piece_of_megabytes_takes_seconds_not_hours():
    merges: Merges = []
    last = int(BYTES[ord(" ")])
    for made in range(10):
        merges.append((last, last, made))
        last = made
    start = time.process_time()
    size = 1 << 22
    assert encode(encoder(merges), [b" " * size]) == [[9] * (size >> 10)]
    assert encode(encoder(merges), [b"x" * size]) == [[int(BYTES[ord("x")])] * size]
    assert time.process_time() - start < 20


@pytest.mark.slow
def test_pieces_are_merged_again_after_the_cache_was_emptied():
    """The text has more pieces and more bytes than the cache of pieces holds, so the cache is emptied several times."""
    merges, _ = doubling()
    words = [f" {number:x}ab" for number in range(600_000)] + [f" {number:0>90}aaa" for number in range(200_000)]
    data = "".join(words * 2).encode()
    whole, _ = encoder(merges).encode(data, np.array([0, len(data)], np.int64), -1)
    half = np.array([0, len(data) // 2], np.int64)
    once, _ = encoder(merges).encode(data, half, -1)
    assert np.array_equal(whole, np.tile(once, 2))
    for start in range(0, len(words), 40_000):
        few = "".join(words[start : start + 1000]).encode()
        fresh, _ = encoder(merges).encode(few, np.array([0, len(few)], np.int64), -1)
        before = "".join(words[:start]).encode()
        skipped = len(encoder(merges).encode(before, np.array([0, len(before)], np.int64), -1)[0])
        assert np.array_equal(once[skipped : skipped + len(fresh)], fresh)


def test_threads_that_share_an_encoder_do_not_disturb_each_other():
    merges, _ = doubling()
    rng = np.random.default_rng(3)
    texts = [bytes(rng.choice([32, 97, 98, 99], size=200_000)) for _ in range(4)]
    wanted = [encode(encoder(merges), [text]) for text in texts]
    kernel, found = encoder(merges), {}

    def work(number: int) -> None:
        found[number] = [encode(kernel, [texts[number]]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(4)] == [[tokens] * 3 for tokens in wanted]


def test_ctrl_c_interrupts_encoding_also_within_one_piece():
    merges, _ = doubling()
    kernel = encoder(merges)
    for text in (b"ab" * 20_000_000, b"ab " * 60_000_000):
        alarm = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])

        def interrupted(text: bytes = text, alarm: threading.Timer = alarm) -> None:
            alarm.start()
            kernel.encode(text, np.array([0, len(text)], np.int64), -1)

        start = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        alarm.join()
        assert time.process_time() - start < 2
    assert encode(kernel, [b"ab"]) == [[0]]


def test_wrong_arguments_raise_an_error():
    good = np.zeros((0, 3), np.int32)
    for bytes_, merges, preset, message in (
        (BYTES[:255], good, "bloom", "256 entries"),
        (-BYTES, good, "bloom", "negative"),
        (BYTES, np.zeros((1, 2), np.int32), "bloom", "shape"),
        (BYTES, np.array([[1, 2, -3]], np.int32), "bloom", "negative"),
        (BYTES, np.array([[1, 2, 3], [1, 2, 4]], np.int32), "bloom", "merges twice"),
        (BYTES, good, "gpt-2", "preset"),
    ):
        with pytest.raises(ValueError, match=message):
            _bpe.Encoder(bytes_, merges, preset, False)
    kernel = encoder([])
    with pytest.raises(ValueError, match="offsets"):
        kernel.encode(b"abc", np.array([0, 4], np.int64), -1)
    for end in (-2, 2**31):
        with pytest.raises(ValueError, match="end"):
            kernel.encode(b"abc", np.array([0, 3], np.int64), end)
    tokens, lengths = kernel.encode(b"", np.zeros(1, np.int64), 5)
    assert (len(tokens), len(lengths)) == (0, 0)
