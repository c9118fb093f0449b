"""Test the compiled counter of pieces without the rest of the program: arbitrary bytes, several languages, sorted
output."""

import random
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from data_prep.tokenizer import _bpe


def counts_of(counter: Any, language: int, pieces: int) -> list[tuple[bytes, int]]:
    found = []
    while True:
        data, offsets, counts = counter.drain(language, pieces)
        if not len(counts):
            return found
        found += [
            (bytes(data[start:end]), count)
            for (start, end), count in zip(pairwise(offsets.tolist()), counts.tolist(), strict=True)
        ]


def fed(counter: Any, texts: list[bytes], languages: list[int]) -> None:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    counter.add(b"".join(texts), offsets, np.array(languages, np.int64))


@pytest.mark.parametrize("pieces", [1, 2, 100])
def test_the_counter_drains_sorted_by_bytes_and_then_counts_again(pieces: int) -> None:
    counter = _bpe.Counter("bloom", False)
    words = [b"a", b"a\0", b"a\0\0", b"aaaaaaaab", b"aaaaaaaa", b"aaaaaaaac", b"\xff", b"\xc3\xa9"]
    fed(counter, [*words, *words[:3]], [1] * 11)
    assert counts_of(counter, 1, pieces) == [(word, 2 if word in words[:3] else 1) for word in sorted(words)]
    fed(counter, [b"z"], [1])
    assert counts_of(counter, 1, pieces) == [(b"z", 1)]
    assert counts_of(counter, 0, pieces) == []
    assert counter.totals().tolist() == [[0, 0, 0], [12, sum(map(len, words)) + 7, 0]]
    assert counter.memory_bytes == 0


def test_the_counter_raises_errors_for_invalid_calls() -> None:
    counter = _bpe.Counter("modern", False)
    for languages in ([-1], [1 << 16], [0, 0]):
        with pytest.raises(ValueError, match="languages"):
            fed(counter, [b"a"], languages)
    fed(counter, [b"a b"], [0])
    counter.drain(0, 1)
    with pytest.raises(ValueError, match="being drained"):
        fed(counter, [b"a"], [0])
    with pytest.raises(ValueError, match="at least 1"):
        counter.drain(0, 0)
    with pytest.raises(ValueError, match="named gpt"):
        _bpe.Counter("gpt", False)


def test_many_pieces_are_counted_and_sorted() -> None:
    """The pieces are so many that the table grows several times, and many share long prefixes."""
    generator = random.Random(4)
    words = {b"common-" * generator.randrange(3) + generator.randbytes(3).hex().encode() for _ in range(50_000)}
    counter = _bpe.Counter("bloom", False)
    for _ in range(2):
        fed(counter, [b"\n".join(words)], [0])
    assert counter.memory_bytes < 60 * len(words)
    found = counts_of(counter, 0, 1 << 10)
    assert [(word, count) for word, count in found if word != b"\n"] == [(word, 2) for word in sorted(words)]
    assert (b"\n", 2 * len(words) - 2) in found


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"ab cd ", b"x", b" ", b"1"])
def test_a_line_of_100_megabytes_takes_seconds(text: bytes) -> None:
    start = time.process_time()
    counter = _bpe.Counter("modern", True)
    fed(counter, [text * (100_000_000 // len(text))], [0])
    assert time.process_time() - start < 60
    assert len(counts_of(counter, 0, 10)) < 5


@pytest.mark.slow
def test_ctrl_c_interrupts_a_long_text() -> None:
    counter = _bpe.Counter("modern", False)
    text = b"a b " * 100_000_000

    def interrupted() -> None:
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        fed(counter, [text], [0])

    start = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.process_time() - start < 2
