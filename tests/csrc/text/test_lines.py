"""Compare the kernel's hashing and removal of lines with a plain Python reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data_prep.corpus import _text


def batch(texts: Sequence[str]) -> tuple[bytes, NDArray[np.int64]]:
    blobs = [text.encode() for text in texts]
    return b"".join(blobs), np.cumsum([0, *map(len, blobs)], dtype=np.int64)


def hashes(text: str, least: int = 1, salt: int = 0) -> list[int]:
    found, contents = _text.line_hashes(*batch([text]), np.array([salt], np.uint64), np.zeros(1, np.uint8), least)
    assert len(found) == len(contents)
    return [int(value) for value in found]


def content(text: str) -> int:
    """Return the kernel's hash of a document's content. The document must have at least one line."""
    [value] = set(_text.line_hashes(*batch([text]), np.zeros(1, np.uint64), np.zeros(1, np.uint8), 1)[1].tolist())
    return int(value)


def without(text: str, lines: Sequence[str], least: int = 1) -> tuple[str, int]:
    """Return the text after the kernel removed `lines` from it, and the number of removed lines."""
    repeated = np.unique(np.array([hashes(line)[0] for line in lines], np.uint64))
    data, bounds, removed = _text.remove_lines(
        *batch([text]), np.zeros(1, np.uint64), np.zeros(1, np.uint8), least, repeated
    )
    assert bounds.tolist() == [0, len(data)]
    return data.tobytes().decode(), int(removed[0])


def removed_in_python(text: str, gone: set[str], least: int) -> tuple[str, int]:
    pieces = text.split("\n")
    lines = [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
    goes = [line.strip() in gone and len(line.strip()) >= least for line in lines]
    left = "".join(line for line, away in zip(lines, goes, strict=True) if not away)
    if goes and goes[-1] and not text.endswith("\n"):
        left = left.removesuffix("\n").removesuffix("\r") if left.endswith("\n") else left
    return left, sum(goes)


LINES = [
    "",
    "ab",
    "  ab",
    "ab \r",
    "\u3000ab\u00a0",
    "éé",
    "漢字漢字",
    " ",
    "\r",
    "\u2028",
    "a b",
    "x" * 40,
    "x" * 41,
    "ß\x85",
]


@given(st.lists(st.sampled_from(LINES), max_size=9), st.sets(st.sampled_from(LINES)), st.integers(1, 5))
@settings(max_examples=400, deadline=None)
def test_lines_are_found_and_removed_as_in_python(lines: list[str], gone: set[str], least: int) -> None:
    text = "\n".join(lines)
    long_enough = {line.strip() for line in text.split("\n")} - {""}
    found = hashes(text, least)
    assert found == sorted(set(found))
    assert len(found) == sum(len(line) >= least for line in long_enough)
    stripped = {line.strip() for line in gone} - {""}
    assert without(text, sorted(stripped), least) == removed_in_python(text, stripped, least)


def test_white_space_is_that_of_str_isspace() -> None:
    for code in (*range(1, 0x3100), 0xFEFF, 0x1F600):
        character = chr(code)
        if not 0xD800 <= code < 0xE000 and character != "\n":
            assert (hashes(f"{character}a line{character}") == hashes("a line")) == character.isspace(), hex(code)


def test_the_minimum_length_counts_characters_not_bytes() -> None:
    assert hashes("漢" * 14, 15) == []
    assert len(hashes("漢" * 15, 15)) == 1
    assert hashes("  " + "a" * 14 + "  ", 15) == []


@pytest.mark.parametrize(
    ("text", "left", "lines"),
    [
        ("TEMPLATE", "", 1),
        ("TEMPLATE\n", "", 1),
        ("TEMPLATE\nbody", "body", 1),
        ("body\nTEMPLATE", "body", 1),
        ("body\r\nTEMPLATE", "body", 1),
        ("body\r\n  TEMPLATE\t\r\nend\r\n", "body\r\nend\r\n", 1),
        ("body\n\nTEMPLATE\n\n    indented\n", "body\n\n\n    indented\n", 1),
        ("\nTEMPLATE", "", 1),
        ("body\nTEMPLATE\nTEMPLATE", "body", 2),
        ("body TEMPLATE\n", "body TEMPLATE\n", 0),
        ("body\n   \n\t\n", "body\n   \n\t\n", 0),
        ("", "", 0),
    ],
)
def test_a_line_is_removed_with_its_line_ending_only(text: str, left: str, lines: int) -> None:
    assert without(text, ["TEMPLATE"]) == (left, lines)


def test_copies_of_a_document_have_the_same_content_hash_and_other_documents_do_not() -> None:
    base = content("a title\na line\n")
    assert content("  a title \r\n\n\na line") == base
    assert content("a line\na title\n") != base
    assert content("a title\na line\nx\n") != base
    assert content("a titlea line\n") != base


def test_salts_change_hashes_and_untouched_documents_are_skipped() -> None:
    assert hashes("a line", salt=1) != hashes("a line", salt=2)
    texts = ["a line\nanother", "a line\nanother"]
    salts, untouched = np.zeros(2, np.uint64), np.array([1, 0], np.uint8)
    found, _ = _text.line_hashes(*batch(texts), salts, untouched, 1)
    assert found.tolist() == hashes("a line\nanother")
    data, bounds, removed = _text.remove_lines(
        *batch(texts), salts, untouched, 1, np.array(hashes("another"), np.uint64)
    )
    assert data.tobytes().decode() == "a line\nanother" + "a line"
    assert (bounds.tolist(), removed.tolist()) == ([0, 14, 20], [0, 1])


def test_a_line_of_a_megabyte_and_lines_at_any_alignment() -> None:
    long = "é" * (1 << 19)
    assert without(f"x\n{long}\ny", [long]) == ("x\ny", 1)
    # Lines of all lengths around the hash's block of 16 bytes, each at a different offset in the buffer.
    lines = ["abcdefghijklmnopqrstuvwxyz0123456789"[:length] for length in range(1, 37)]
    assert len(hashes("\n".join(lines))) == len(lines)
    for line in lines:
        assert hashes(line)[0] in hashes("\n".join(lines))


def test_hashes_of_many_lines_are_distinct_and_uniform() -> None:
    text = "\n".join(f"line {number}" for number in range(200_000))
    found = np.array(hashes(text), np.uint64)
    assert len(found) == 200_000
    shares = np.bincount((found >> np.uint64(60)).astype(np.int64), minlength=16) / len(found)
    assert np.all(np.abs(shares - 1 / 16) < 0.005)


def test_hashes_do_not_change_between_versions() -> None:
    assert hashes("a line of some length") == [8755620009291144951]


def test_invalid_arguments_raise_an_error() -> None:
    data, offsets = batch(["a", "b"])
    two, flags = np.zeros(2, np.uint64), np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="one entry a document"):
        _text.line_hashes(data, offsets, two[:1], flags, 1)
    with pytest.raises(ValueError, match="at least 1"):
        _text.line_hashes(data, offsets, two, flags, 0)
    with pytest.raises(ValueError, match="sorted"):
        _text.remove_lines(data, offsets, two, flags, 1, np.array([2, 1], np.uint64))
