"""Run csrc/bpe under AddressSanitizer and UndefinedBehaviorSanitizer and compare the results with the extension
module."""

import random
import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hostile_text import any_character, cut_and_random
from sanitized import compile_driver, folded, kernel_sources, run_driver

from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import PRESETS

pytestmark = pytest.mark.slow

ORDER = np.arange(256)
CACHE_WORDS = 1 << 14
"""Size of the encoder's cache in the compiled driver, in words of 4 bytes. The extension module has 4,194,304 words."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    main = Path(__file__).parent / "sanitize/driver.cpp"
    cache = f"BLOOMERY_CACHE_WORDS={CACHE_WORDS}"
    return compile_driver(main, kernel_sources("bpe"), tmp_path_factory.mktemp("sanitize"), cache)


def sanitized(driver: Path, documents: list[bytes]) -> list[str]:
    """Return the lines that the driver prints."""
    given = b"".join(struct.pack("=Q", len(blob)) + blob for blob in documents)
    return run_driver(driver, given).splitlines()


def digest(values: Iterable[int]) -> str:
    return " ".join(map(str, folded(values)))


def expected(documents: list[bytes]) -> Iterator[str]:
    """Yield the lines that the driver should print, computed by the extension module."""
    data, offsets = b"".join(documents), np.cumsum([0, *map(len, documents)], dtype=np.int64)
    for preset in PRESETS:
        for split_digits in (False, True):
            for blob in documents:
                yield digest(_bpe.piece_ends(blob, preset, split_digits).tolist())
            counter = _bpe.Counter(preset, split_digits)
            counter.add(data, offsets, np.zeros(len(documents), np.int64))
            pieces, bounds, counts = counter.drain(0, 1 << 40)
            spelt = pieces.tolist()
            flat = [
                value
                for (start, end), count in zip(pairwise(bounds.tolist()), counts.tolist(), strict=True)
                for value in (*spelt[start:end], count)
            ]
            yield digest([*flat, *counter.totals()[0].tolist()])
            merges = _bpe.train(pieces, bounds, counts, ORDER.astype(np.uint8), 3000, 2, 32)
            yield digest(merges.ravel().tolist())
            made = np.column_stack([merges, np.arange(256, 256 + len(merges))]).astype(np.int32)
            encoder = _bpe.Encoder(ORDER.astype(np.int32), made, preset, split_digits)
            tokens, lengths = encoder.encode(data, offsets, -1)
            for start, end in pairwise(np.cumsum([0, *lengths]).tolist()):
                yield digest(tokens[start:end].tolist())


def test_random_bytes_truncated_characters_and_empty_documents(driver: Path) -> None:
    generator = random.Random(1)
    text = "Ünï  12345 ★ का कि। 今天天气。\r\n\n  - the a… \u2028x\U0001f600\0'a'\u200d٣٤٥٦ র\u200d্যাব  ".encode()
    documents = cut_and_random(generator, text)
    assert sanitized(driver, documents) == list(expected(documents))


def test_repeated_words_and_arbitrary_characters(driver: Path) -> None:
    generator = random.Random(2)
    alphabet = [*"ab A1'’\u200d\n\r\t .…#।-*٣", "人", "क", "्", "ी", *(any_character(generator) for _ in range(20))]
    documents = ["".join(generator.choices(alphabet, k=generator.randrange(400))).encode() for _ in range(300)]
    documents += [(word * 700).encode() for word in ("a ", "the a ", "का ", "人", "\n", "x\n\n", "'", " ", "1")]
    assert sanitized(driver, documents) == list(expected(documents))


def test_pieces_around_and_above_the_maximum_length(driver: Path) -> None:
    generator = random.Random(3)
    most = _bpe.MAX_PIECE_BYTES
    documents = [character * (most + more) for character in (b"x", b"\x80", b"\xff") for more in (-1, 0, 1, most)]
    documents += [b"a" * pad + "人".encode() * most for pad in range(3)]
    documents += [b"a" * pad + "\U0001f600".encode() * most for pad in range(4)]
    documents += [bytes(generator.choices(b"abcdefgh", k=30_000)), bytes(generator.choices(b"ab 1\n.", k=30_000))]
    assert sanitized(driver, documents) == list(expected(documents))


def test_so_many_pairs_that_the_trainer_lowers_its_minimum_and_removes_dead_pairs(driver: Path) -> None:
    generator = random.Random(5)
    syllables = ["".join(generator.choices("abcdefghijklmnoprstuv", k=3)) for _ in range(300)]
    words = ["".join(generator.choices(syllables, k=generator.randrange(1, 5))) for _ in range(8000)]
    documents = [" ".join(word for rank, word in enumerate(words, 1) for _ in range(1 + 2000 // rank)).encode()]
    assert sanitized(driver, documents) == list(expected(documents))


def test_more_pieces_than_the_cache_of_the_encoder_holds(driver: Path) -> None:
    """The cache holds the bytes and the tokens of pieces. When it is full, it is emptied."""
    generator = random.Random(4)
    # The bytes of a word alone take 30 words of the cache, so the cache is emptied several times.
    words = ("".join(generator.choices("abcdefghijklmnop", k=118)) for _ in range(10 * CACHE_WORDS // 30))
    documents = [" ".join(words).encode(), b"a short one"]
    assert sanitized(driver, documents) == list(expected(documents))
