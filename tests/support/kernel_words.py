"""Compute the kernel's words, listed words and scripts in plain Python, with ``unicodedata`` and ``regex``."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

JOINERS = "'’\u200c\u200d"
UNSPACED_NAMES = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "TIBETAN")


def is_word(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd"


def stands_alone(character: str) -> bool:
    """Return whether a character is a letter of one of the unspaced scripts that these tests use."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] == "L" and (name.startswith(UNSPACED_NAMES) or character == "々")


def words_of(text: str, unspaced: bool) -> list[str]:
    words: list[str] = []
    open_word = False  # whether the next character may continue the last word
    alone = False  # whether the last word is a single unspaced letter, which only marks may continue
    for at, character in enumerate(text):
        after = text[at + 1 : at + 2]
        if is_word(character):
            single = unspaced and stands_alone(character)
            mark = unicodedata.category(character)[0] == "M"
            if open_word and not single and (mark or not alone):
                words[-1] += character
            else:
                words.append(character)
                alone = single
            open_word = True
        elif open_word and not alone and character in JOINERS and after and is_word(after):
            open_word = not (unspaced and stands_alone(after))
            words[-1] += character if open_word else ""
        else:
            open_word = False
    return words


def normal(word: str) -> str:
    """Return a word in simple lower case, without apostrophes and joiners."""
    return "".join(character.lower()[0] for character in word if character not in JOINERS)


def covered(words: Sequence[str], entries: Sequence[str], unspaced: bool) -> int:
    """Return how many of the words belong to an entry, which is a word or a phrase of several words."""
    text = [normal(word) for word in words]
    phrases = [[normal(word) for word in words_of(entry, unspaced)] for entry in entries]
    inside = {
        i + k
        for phrase in phrases
        for i in range(len(text) - len(phrase) + 1)
        if text[i : i + len(phrase)] == phrase
        for k in range(len(phrase))
    }
    return len(inside)


def script_of(character: str, names: Sequence[str]) -> str | None:
    """Return which of the scripts `names` a letter belongs to.

    Return None for other characters and letters of many scripts.
    """
    if unicodedata.category(character)[0] != "L" or regex.match(r"[\p{Script=Common}\p{Script=Inherited}]", character):
        return None
    if regex.match(r"[\p{Script=Hiragana}\p{Script=Katakana}]", character):
        return "Kana"
    return next((name for name in names if name not in ("Kana", "Other") and in_script(character, name)), "Other")


def in_script(character: str, name: str) -> bool:
    return regex.match(rf"\p{{Script={name}}}", character) is not None
