"""The kernels of csrc/bpe under AddressSanitizer and UndefinedBehaviorSanitizer: no fault, and the module's numbers."""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import PRESETS

ROOT = Path(__file__).parents[3]
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
FLAGS = [
    *("-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
]
ORDER = np.arange(256)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        assert "CI" not in os.environ, "continuous integration has a C++ compiler"
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("sanitize") / "driver"
    sources = [path for path in sorted(ROOT.glob("csrc/bpe/*.cpp")) if not path.stem.endswith("module")]
    main = Path(__file__).parent / "sanitize/driver.cpp"
    command = [COMPILER, *FLAGS, f"-I{ROOT}/csrc", str(main), *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "sanitize" in done.stderr and "CI" not in os.environ:
        pytest.skip(f"a compiler without sanitizers: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return program


def sanitized(driver: Path, documents: list[bytes]) -> list[str]:
    """What the driver prints, line by line; fails with its message when a sanitizer spoke."""
    given = b"".join(struct.pack("=Q", len(blob)) + blob for blob in documents)
    done = subprocess.run([driver], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-4000:]
    return done.stdout.decode().splitlines()


def digest(values: Iterable[int]) -> str:
    state, count = 0xCBF29CE484222325, 0
    for value in values:
        state, count = (state ^ value) * 0x100000001B3 % 2**64, count + 1
    return f"{count} {state}"


def expected(documents: list[bytes]) -> Iterator[str]:
    """The same lines by the extension module."""
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


def any_character(generator: random.Random) -> str:
    return chr(
        generator.choice(
            [generator.randrange(0x80), generator.randrange(0xD800), generator.randrange(0xE000, 0x110000)]
        )
    )


def test_random_bytes_cuts_of_characters_and_empty_documents(driver: Path) -> None:
    generator = random.Random(1)
    text = "Ünï  12345 ★ का कि। 今天天气。\r\n\n  - the a… \u2028x\U0001f600\0'a'\u200d٣٤٥٦ র\u200d্যাব  ".encode()
    documents = [b"", b"\0", b"\n", b"\xff", b" \n \t", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a" * 11, b"1" * 11]
    documents += [text[:n] for n in range(len(text))]
    documents += [text[n:] for n in range(len(text))]
    documents += [generator.randbytes(generator.randrange(200)) for _ in range(300)]
    # Random bytes are malformed nearly everywhere; whole characters with some bytes spoilt go further.
    for _ in range(150):
        spoilt = bytearray("".join(any_character(generator) for _ in range(40)).encode())
        for _ in range(generator.randrange(4)):
            spoilt[generator.randrange(len(spoilt))] = generator.randrange(256)
        documents.append(bytes(spoilt))
    assert sanitized(driver, documents) == list(expected(documents))


def test_repeated_words_and_arbitrary_characters(driver: Path) -> None:
    generator = random.Random(2)
    alphabet = [*"ab A1'’\u200d\n\r\t .…#।-*٣", "人", "क", "्", "ी", *(any_character(generator) for _ in range(20))]
    documents = ["".join(generator.choices(alphabet, k=generator.randrange(400))).encode() for _ in range(300)]
    documents += [(word * 700).encode() for word in ("a ", "the a ", "का ", "人", "\n", "x\n\n", "'", " ", "1")]
    assert sanitized(driver, documents) == list(expected(documents))


def test_pieces_around_and_beyond_the_longest_that_counts(driver: Path) -> None:
    generator = random.Random(3)
    most = _bpe.MAX_PIECE_BYTES
    documents = [character * (most + more) for character in (b"x", b"\x80", b"\xff") for more in (-1, 0, 1, most)]
    documents += [b"a" * pad + "人".encode() * most for pad in range(3)]
    documents += [b"a" * pad + "\U0001f600".encode() * most for pad in range(4)]
    documents += [bytes(generator.choices(b"abcdefgh", k=30_000)), bytes(generator.choices(b"ab 1\n.", k=30_000))]
    assert sanitized(driver, documents) == list(expected(documents))


def test_so_many_pairs_that_the_trainer_lowers_its_minimum_and_sweeps_out_the_dead(driver: Path) -> None:
    generator = random.Random(5)
    syllables = ["".join(generator.choices("abcdefghijklmnoprstuv", k=3)) for _ in range(300)]
    words = ["".join(generator.choices(syllables, k=generator.randrange(1, 5))) for _ in range(8000)]
    documents = [" ".join(word for rank, word in enumerate(words, 1) for _ in range(1 + 2000 // rank)).encode()]
    assert sanitized(driver, documents) == list(expected(documents))


@pytest.mark.slow
def test_more_pieces_than_the_encoder_remembers(driver: Path) -> None:
    """It forgets them all and goes on: 16 MiB of pieces and their tokens."""
    generator = random.Random(4)
    words = ("".join(generator.choices("abcdefghijklmnop", k=118)) for _ in range(40_000))
    documents = [" ".join(words).encode(), b"a short one"]
    assert sanitized(driver, documents) == list(expected(documents))


def test_the_sanitizers_are_on(tmp_path: Path) -> None:
    """A check that cannot fail is none: the same flags stop a program that reads behind its memory."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "fault.cpp"
    source.write_text("int main(int n, char**) { int* a = new int[n]; int b = a[n]; delete[] a; return b; }\n")
    subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(tmp_path / "fault")], check=True)
    done = subprocess.run([tmp_path / "fault"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
