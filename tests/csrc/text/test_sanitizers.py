"""Run the C++ kernels under AddressSanitizer and UndefinedBehaviorSanitizer and compare them with the extension
modules."""

import random
import struct
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_text import any_character, cut_and_random
from sanitized import compile_driver, folded, kernel_sources, run_driver

from data_prep.corpus import _text
from data_prep.tokenizer import _bpe

pytestmark = pytest.mark.slow

STOP, FLAGGED = ["the", "का", "a"], ["the a", "a a a a a a a a"]
Document = tuple[bytes, int]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    main = Path(__file__).parent / "sanitize/driver.cpp"
    return compile_driver(main, kernel_sources("text", "bpe"), tmp_path_factory.mktemp("sanitize"))


def sanitized(driver: Path, documents: list[Document]) -> list[list[str]]:
    """Return the driver's output as lines of words."""
    given = b"".join(struct.pack("=BQ", unspaced, len(blob)) + blob for blob, unspaced in documents)
    return [line.split() for line in run_driver(driver, given).splitlines()]


def digest(values: Iterable[int]) -> list[str]:
    return [str(number) for number in folded(values)]


def expected(documents: list[Document]) -> Iterator[list[Any]]:
    """Yield the lines that the driver should print, computed by the extension modules."""
    blobs = [blob for blob, _ in documents]
    data, offsets = b"".join(blobs), np.cumsum([0, *map(len, blobs)], dtype=np.int64)
    unspaced = np.array([flag for _, flag in documents], np.uint8)
    lists = _text.WordLists([(STOP, FLAGGED, False), (STOP, FLAGGED, True)])
    measures = _text.measure(data, offsets, unspaced, lists, unspaced.astype(np.int32))
    scripts = measures.pop("scripts")
    keys = _text.minhash(data, offsets, unspaced, 5, 5, 14, 8, 1)
    shingles, bounds = _text.shingles(data, offsets, unspaced, 5, 5)
    before = np.empty(0, np.uint64)
    for i, (start, end) in enumerate(pairwise(offsets.tolist())):
        yield [*(values[i] for values in measures.values()), *scripts[i]]
        yield digest(keys[i].tolist())
        mine = shingles[bounds[i] : bounds[i + 1]]
        yield [len(np.intersect1d(mine, before))]
        before = mine
        one = data[start:end], np.array([0, end - start], np.int64)
        salt, untouched = np.array([7], np.uint64), np.zeros(1, np.uint8)
        hashes, content = _text.line_hashes(*one, salt, untouched, 3)
        # The module returns no content hash for a document without a hashed line.
        yield [str(content[0]) if len(content) else None, *digest(hashes.tolist())]
        text, _, removed = _text.remove_lines(*one, salt, untouched, 3, hashes[::2])
        yield [str(removed[0]), *digest(bytes(text))]
        form, _, settled = _text.normal_forms(*one)
        yield [str(settled[0]), *digest(form)]
    order = np.arange(256, dtype=np.uint8)
    merges = _bpe.train(data, offsets, np.full(len(documents), 3, np.int64), order, 200, 2, 32)
    yield digest(merges.ravel().tolist())


def assert_equal(driver: Path, documents: list[Document]) -> None:
    printed = sanitized(driver, documents)
    wanted = list(expected(documents))
    assert len(printed) == len(wanted)
    for line, values in zip(printed, wanted, strict=True):
        assert len(line) == len(values)
        for shown, value in zip(line, values, strict=True):
            if isinstance(value, str):
                assert shown == value
            elif value is not None:
                assert (float.fromhex(shown) if "x" in shown else int(shown)) == value


def test_random_bytes_truncated_characters_and_empty_documents(driver: Path) -> None:
    generator = random.Random(1)
    text = "Ünï ★ का कि। 今天天气。\r\n\n  - the a… \u2028x\U0001f600\0'a'\u200d".encode()
    blobs = ["\ufeff".encode(), *cut_and_random(generator, text)]
    assert_equal(driver, [(blob, flag) for blob in blobs for flag in (0, 1)])


def test_arbitrary_unicode_repeated_words_and_lines(driver: Path) -> None:
    generator = random.Random(2)
    alphabet = [*"ab A1'’\u200d\n\r\t .…#।-*", "人", "क", "्", "ी", *(any_character(generator) for _ in range(20))]
    documents = [
        ("".join(generator.choices(alphabet, k=generator.randrange(400))).encode(), flag)
        for flag in (0, 1)
        for _ in range(150)
    ]
    documents += [
        ((word * 700).encode(), flag) for word in ("a ", "the a ", "का ", "人", "\n", "x\n\n", "'") for flag in (0, 1)
    ]
    assert_equal(driver, documents)


def test_very_long_documents(driver: Path) -> None:
    generator = random.Random(3)
    words = ["".join(generator.choices("abcdefgh", k=generator.randrange(1, 9))) for _ in range(3000)]
    prose = " ".join(generator.choices(words, k=60_000))
    lines = "\n".join(generator.choices(words, k=60_000))
    blobs = [b"x" * 300_000, prose.encode(), lines.encode(), ("今天" * 40_000).encode(), generator.randbytes(200_000)]
    assert_equal(driver, [(blob, flag) for flag, blob in enumerate(blobs[:2])] + [(blob, 1) for blob in blobs[2:]])


def test_the_sanitizers_are_on(driver: Path, tmp_path: Path) -> None:
    """A program that is compiled with the same flags and reads beyond its memory must fail."""
    source = tmp_path / "fault.cpp"
    source.write_text("int main(int n, char**) { int* a = new int[n]; int b = a[n]; delete[] a; return b; }\n")
    done = subprocess.run([compile_driver(source, [], tmp_path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
