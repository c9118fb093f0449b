"""Our split against `tokenizers` with BLOOM's published pattern."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from data_prep.tokenizer.pre_tokenizer import BLOOM_PATTERN, split

PUBLISHED = pre_tokenizers.Split(Regex(BLOOM_PATTERN), behavior="isolated")
TRICKY = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u200b\u2003\u2028\u202f\u3000\ufeff().,|!?…。，、।۔،][aé人ا"


def published(text):
    return [piece for piece, _ in PUBLISHED.pre_tokenize_str(text)]


@given(st.text(TRICKY, max_size=30) | st.text(max_size=30))
def test_split_is_the_published_one(text):
    assert split(text) == published(text)
    assert "".join(split(text)) == text


@pytest.mark.slow
def test_every_character_is_on_the_right_side():
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            text = f"a{chr(code)} {chr(code)}b"
            assert split(text) == published(text), hex(code)


def test_runs_of_spaces_stay_whole():
    assert split("a    b, c\n\n  d") == ["a", "   ", " b", ",", " c", "\n\n ", " d"]
