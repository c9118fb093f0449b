"""Compare content hashes with their plain definition for all sorts of characters."""

from __future__ import annotations

import random
import runpy
import unicodedata
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository import ROOT

from data_prep.corpus import _text
from data_prep.corpus.content_hash import content_hashes

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
COMBINING = [char for char in CHARACTERS if unicodedata.combining(char) or unicodedata.decomposition(char)]
JAMO = [chr(code) for code in range(0x1100, 0x1200)]


def buffers(texts: list[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
    blobs = [text.encode() for text in texts]
    return b"".join(blobs), np.cumsum([0, *map(len, blobs)], dtype=np.int64)


def collapsed(text: str) -> str:
    return " ".join(text.split())


def check(texts: list[str]) -> npt.NDArray[np.uint8]:
    """Compare normal forms and hashes with their plain definition.

    Return for which texts the kernel knows that they are NFC.
    """
    forms, bounds, settled = _text.normal_forms(*buffers(texts))
    assert [forms[a:b].decode() for a, b in pairwise(bounds)] == list(map(collapsed, texts))
    for text, done in zip(texts, settled, strict=True):
        assert not done or unicodedata.is_normalized("NFC", collapsed(text)), ascii(text)
    normal = [unicodedata.normalize("NFC", collapsed(text)).encode() for text in texts]
    expected = [blake2b(form, digest_size=16).digest() for form in normal]
    assert content_hashes(*buffers(texts)).to_pylist() == expected
    return settled


@given(st.lists(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(COMBINING)))))
def test_any_text_has_the_hash_of_the_plain_definition(texts: list[str]) -> None:
    check(texts)


def test_short_sequences_that_compose_have_the_hash_of_the_plain_definition() -> None:
    rng = random.Random(1)
    pools = [COMBINING, JAMO, list("aeoे कन\u00e9\u1eb9\u09c7"), [chr(code) for code in range(0x300, 0x345)]]
    texts = ["".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 7))) for _ in range(40_000)]
    settled = check(texts)
    assert 0.2 < settled.mean() < 0.9, "the kernel must settle some texts and leave others to Python"


def test_every_character_alone_or_after_a_letter_has_the_hash_of_the_plain_definition() -> None:
    check([each for char in CHARACTERS[:0x3100] for each in (char, f"a{char}", f"{char}\u0301")])


@pytest.mark.parametrize(
    "text",
    ["plain words", "déjà vu", "Tiếng Việt", "हिन्दी में ज़रूर", "বাংলা ভাষা", "العَرَبِيَّة", "中文", "한국어", "தமிழ்", "മലയാളം"],
)
def test_the_kernel_knows_that_ordinary_text_is_normalized(text: str) -> None:
    assert unicodedata.is_normalized("NFC", text)
    assert check([text]).all()


def test_decomposed_letters_are_left_to_python_and_have_the_same_hash() -> None:
    composed = "été Việt ガ 한"
    texts = [composed, unicodedata.normalize("NFD", composed)]
    assert check(texts).tolist() == [1, 0]
    first, second = content_hashes(*buffers(texts)).to_pylist()
    assert first == second


def test_malformed_bytes_do_not_change_and_are_left_to_python() -> None:
    for bad in (b"\xff", b"a\xc3", b"\xe2\x82 b", b"\xf4\x90\x80\x80", b"\xf0\x9f", b"\xed\xa0\x80"):
        forms, _, settled = _text.normal_forms(bad, np.array([0, len(bad)], np.int64))
        assert (forms, settled.tolist()) == (bad, [0])


def test_offsets_outside_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="offsets"):
        _text.normal_forms(b"ab", np.array([0, 3], np.int64))


def test_empty_input_has_no_hashes() -> None:
    assert len(content_hashes(b"", np.zeros(1, np.int64))) == 0


@pytest.mark.skipif(
    unicodedata.unidata_version != _text.UNICODE_VERSION,
    reason="Python and the table have different versions of Unicode",
)
def test_the_generator_reproduces_the_table() -> None:
    generator = runpy.run_path(str(ROOT / "csrc/text/generate_composition_table.py"))
    assert generator["render"]() == (ROOT / "csrc/text/composition_table.hpp").read_text()
