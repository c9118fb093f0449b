"""Compare the compiled text kernel with a plain Python reference that uses ``unicodedata``."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_words import is_word, normal, script_of, words_of
from numpy.typing import NDArray
from text_kernel_reference import FLAGGED, STOP, batch, divide, ngrams, reference

from data_prep.corpus import _text

# The kernel's table and this Python may have different Unicode versions. In this case, the tests use only characters of
# Unicode 3.2 that still have the same category.
SAME_UNICODE = unicodedata.unidata_version == _text.UNICODE_VERSION
STABLE = [
    chr(c)
    for c in range(0x30000)
    if not 0xD800 <= c < 0xE000
    and (SAME_UNICODE or unicodedata.ucd_3_2_0.category(chr(c)) == unicodedata.category(chr(c)) != "Cn")
]

SAMPLES = [
    "",
    "\n \n",
    "Hello, world! It's a test; don't panic.\nHello, world! It's a test; don't panic.\n* item 1\n- item 2\n",
    "En 2024, l’été fut « très » chaud…\n“Vraiment ?”\n\n" + "a" * 31 + "\n" + "b" * 30,
    "यह एक परीक्षा है। क्‍या यह ठीक है?\nयह एक परीक्षा है। क्‍या यह ठीक है?",
    "می‌خواهم بروم. آیا می‌آیی؟ ۱۲۳۴\nیہ ایک جملہ ہے۔",
    "今天天气很好。我们去公园玩！今天天气很好。我们去公园玩！\n2024年 GPT-4 々",
    "ÃƒÂ©tÃ© donâ€™t \ufffd Ã© â€“ naïve â",
    "word " * 200 + "\n" + "na " * 17,
    "İSTANBUL ǅ ẞ Ω STRASSE",
    "ภาษาไทยไม่มีช่องว่าง ก็ดี\u3000བོད་སྐད།",
    "\r\n• bullet\r\n1\t2\t3\x1c\x85 x\u00a0y\u2028z",
    "one two three four five six\n\n \n#one two ... Three four five six....\n \none two three four five six\n\nx…\n\n\n"
    "x…",
    "na na na batman " * 12 + "\n\n" + "a b c d e f g h i j k l " * 3,
]

FROZEN = [[11040303651692068487, 9110236215218729585], [7111134806131414817, 12790499463996524773]]


def script_shares(text: str) -> list[float]:
    found = Counter(script_of(character, _text.SCRIPTS) for character in text)
    return [divide(found[name], found.total() - found[None]) for name in _text.SCRIPTS]


def lists_for(count: int, unspaced: bool) -> tuple[_text.WordLists, NDArray[np.int32]]:
    """Return two word lists (0 is empty, 1 is not) and, for each of `count` documents, the number 1 of the list to
    use."""
    return _text.WordLists([([], [], False), (STOP, FLAGGED, unspaced)]), np.full(count, 1, np.int32)


def assert_measures(texts: Sequence[str], unspaced: bool) -> None:
    flags = np.full(len(texts), unspaced, np.uint8)
    measured = _text.measure(*batch(texts), flags, *lists_for(len(texts), unspaced))
    scripts = measured.pop("scripts")
    for i, text in enumerate(texts):
        expected = reference(text, unspaced)
        assert list(measured) == list(expected)
        assert scripts[i].tolist() == script_shares(text)
        for name, value in expected.items():
            assert measured[name][i] == value, (name, text, unspaced)


@pytest.mark.parametrize("unspaced", [False, True])
@pytest.mark.parametrize("text", SAMPLES)
def test_measures_of_real_scripts_equal_the_reference(text: str, unspaced: bool) -> None:
    assert_measures([text], unspaced)


def test_measures_of_a_batch_equal_those_of_single_documents() -> None:
    assert_measures(SAMPLES, False)
    assert_measures(list(reversed(SAMPLES)), True)


TEXTS = st.text(st.one_of(st.sampled_from("ab A1'’\u200d\n.…#。人क्ี-*Ãâ€"), st.sampled_from(STABLE)), max_size=120)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=4))
def test_measures_of_any_spaced_text_equal_the_reference(texts: list[str]) -> None:
    known = set(".!?…。！？．｡؟۔।॥‼‽⁇⁈⁉།")
    rare_terminals = {c for c in STABLE if unicodedata.category(c) == "Po" and c not in known and not c.isascii()}
    assert_measures([text for text in texts if not rare_terminals & set(text)], False)


def test_letters_and_marks_are_never_special() -> None:
    """ROOTS counted Devanagari vowel signs as special characters, so a plain Hindi sentence had a ratio of 0.366."""
    measured = _text.measure(*batch(["क्या आप हिन्दी बोलते हैं"]), np.zeros(1, np.uint8))
    assert measured["special_ratio"][0] == 0


@pytest.mark.slow
@pytest.mark.skipif(not SAME_UNICODE, reason="the kernel's table has another Unicode version than this Python")
def test_every_code_point_has_the_category_and_lower_case_of_unicodedata() -> None:
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    measured = _text.measure(*batch(every), np.zeros(len(every), np.uint8))
    ordinary = {" ", "\t", "\n", "\r", "\u200c", "\u200d"}
    categories = [unicodedata.category(c) for c in every]
    assert measured["words"].tolist() == [int(k[0] in "LM" or k == "Nd") for k in categories]
    assert measured["digit_ratio"].tolist() == [float(k == "Nd") for k in categories]
    assert measured["alphabetic_word_ratio"].tolist() == [float(k[0] == "L") for k in categories]
    assert measured["lines"].tolist() == [int(bool(c.strip())) for c in every]
    assert measured["special_ratio"].tolist() == [
        float(k[0] in "PSNCZ" and c not in ordinary) for c, k in zip(every, categories, strict=True)
    ]
    letters = [c for c in every if is_word(c)]
    lower = [c.lower()[0] for c in letters]
    flags = np.zeros(len(letters), np.uint8)
    assert np.array_equal(
        _text.shingles(*batch(letters), flags, 1, 1)[0], _text.shingles(*batch(lower), flags, 1, 1)[0]
    )


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.booleans())
def test_malformed_bytes_count_as_replacement_characters(blob: bytes, unspaced: bool) -> None:
    flags = np.array([unspaced], np.uint8)
    raw, clean = _text.measure(*batch([blob]), flags), _text.measure(*batch([blob.decode("utf-8", "replace")]), flags)
    assert all(np.array_equal(raw[name][0], clean[name][0]) for name in raw if name != "bytes")
    _text.minhash(*batch([blob]), flags, 5, 5, 3, 2, 0)


@pytest.mark.parametrize("offsets", [[], [0, 5, 3], [-1, 2], [0, 12], [0, 2**62]])
def test_bad_offsets_raise_an_error(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        _text.measure(b"hello world", np.array(offsets, np.int64), np.zeros(max(len(offsets) - 1, 0), np.uint8))


def test_bad_arguments_raise_an_error() -> None:
    data, offsets = batch(["a", "b"])
    with pytest.raises(ValueError, match="unspaced"):
        _text.measure(data, offsets, np.zeros(3, np.uint8))
    for words, characters, bands, rows in [
        (0, 5, 1, 1),
        (5, 0, 1, 1),
        (5, 5, 0, 1),
        (5, 5, 1, 0),
        (5, 5, 2**33, 2**33),
    ]:
        with pytest.raises(ValueError, match="at "):
            _text.minhash(data, offsets, np.zeros(2, np.uint8), words, characters, bands, rows, 0)


def hashes(texts: Sequence[str], unspaced: bool = False, words: int = 5, characters: int = 5) -> list[set[int]]:
    flags = np.full(len(texts), unspaced, np.uint8)
    values, bounds = _text.shingles(*batch(texts), flags, words, characters)
    found = [values[a:b] for a, b in pairwise(bounds.tolist())]
    assert all((np.diff(part.astype(object)) > 0).all() for part in found)
    return [set(part.tolist()) for part in found]


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=3), st.integers(1, 6), st.booleans())
def test_shingles_are_equal_exactly_if_the_words_are_equal(texts: list[str], length: int, unspaced: bool) -> None:
    if unspaced:
        texts = [text for text in texts if all(ord(c) < 0x500 or c in "人क्ี।。’€\u200d" for c in text)]

    def expected(text: str) -> set[tuple[str, ...]]:
        words = [normal(word) for word in words_of(text, unspaced)]
        units = list("".join(words)) if unspaced else words
        return set(ngrams(units, min(length, len(units)))) if units else set()

    # Texts without words follow another rule, which the next test checks.
    texts = [text for text in texts if expected(text)]
    wanted, found = [expected(text) for text in texts], hashes(texts, unspaced, length, length)
    assert [len(w) for w in wanted] == [len(f) for f in found]
    for i in range(len(texts)):
        for j in range(i):
            assert len(wanted[i] & wanted[j]) == len(found[i] & found[j])


def test_case_punctuation_and_spacing_do_not_change_a_shingle() -> None:
    one, two, other = hashes(
        ["Don't stop -- the MUSIC, please", "dont stop\n the music\u00a0please!", "stop the music"]
    )
    assert one == two != other
    chinese = hashes(["今天，天气很好。我们走", "今天天气\n很好我们走"], unspaced=True)
    assert chinese[0] == chinese[1]
    assert len({frozenset(found) for found in hashes(["", "!!!", "?!", "..."])}) == 4


def test_agreement_of_minhash_estimates_jaccard() -> None:
    """With one row per band, the share of equal keys is an unbiased estimate of the Jaccard similarity J.

    Its variance is J (1 - J) / bands.
    """
    generator = np.random.default_rng(0)
    bands = 4096
    for shared in (0, 100, 300, 480, 500):
        first = [f"w{i}" for i in generator.permutation(500)]
        texts = [" ".join(first), " ".join(first[:shared] + [f"v{i}" for i in range(500 - shared)])]
        a, b = hashes(texts, words=1)
        jaccard = len(a & b) / len(a | b)
        keys = _text.minhash(*batch(texts), np.zeros(2, np.uint8), 1, 1, bands, 1, 7)
        error = (keys[0] == keys[1]).mean() - jaccard
        assert abs(error) <= 4 * math.sqrt(jaccard * (1 - jaccard) / bands) + 1e-12


def test_minhash_is_the_same_on_every_machine() -> None:
    """If these keys change, documents no longer match the keys in files that were written before."""
    keys = _text.minhash(
        *batch(["The quick brown fox jumps.", "今天天气很好"]), np.array([0, 1], np.uint8), 5, 5, 2, 3, 1
    )
    assert keys.tolist() == FROZEN
    again = _text.minhash(*batch(["x", "The quick brown fox jumps."]), np.zeros(2, np.uint8), 5, 5, 2, 3, 1)
    assert again[1].tolist() == FROZEN[0]
    reseeded = _text.minhash(*batch(["The quick brown fox jumps."]), np.zeros(1, np.uint8), 5, 5, 2, 3, 2)
    assert not set(reseeded[0].tolist()) & set(FROZEN[0])


@given(st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=6))
def test_jaccard_equals_that_of_python_sets(documents: list[set[int]]) -> None:
    values = np.array([value for document in documents for value in sorted(document)], np.uint64)
    bounds = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    pairs = [(a, b) for a in range(len(documents)) for b in range(len(documents))]
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    expected = [len(documents[a] & documents[b]) / max(len(documents[a] | documents[b]), 1) for a, b in pairs]
    assert _text.jaccard(values, bounds, left, right).tolist() == expected


@pytest.mark.parametrize(
    ("bounds", "left", "message"),
    [
        ([0, 9], [0], "leave"),
        ([0, 2, 1], [0], "fall"),
        ([0, 2], [1], "not there"),
        ([0, 2], [-1], "not there"),
    ],
)
def test_jaccard_raises_an_error_instead_of_reading_out_of_bounds(
    bounds: list[int], left: list[int], message: str
) -> None:
    places = np.array(left, np.int64)
    with pytest.raises(ValueError, match=message):
        _text.jaccard(np.arange(2, dtype=np.uint64), np.array(bounds, np.int64), places, places)
