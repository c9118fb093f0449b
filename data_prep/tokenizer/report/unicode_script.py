"""Find the Unicode script of a token's text."""

from __future__ import annotations

from collections import Counter
from functools import cache

import regex

SCRIPTS = (
    *("Latin", "Arabic", "Devanagari", "Bengali", "Gujarati", "Gurmukhi", "Kannada", "Malayalam", "Oriya", "Tamil"),
    *("Telugu", "Han", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Greek", "Hebrew", "Thai", "Ethiopic", "Lao"),
    *("Khmer", "Myanmar", "Tibetan", "Sinhala", "Armenian", "Georgian", "Nko", "Tifinagh", "Bopomofo"),
)
DIGITS, SPACES, SIGNS, OTHER = "digits", "white space", "punctuation and signs", "other scripts"
FRAGMENTS, BYTES, SPECIAL = "parts of characters", "single bytes", "special"
_KINDS = regex.compile(
    "|".join(rf"(?P<{name}>\p{{Script={name}}})" for name in SCRIPTS)
    + r"|(?P<digits>\p{N})|(?P<letter>\p{L})|(?P<space>[\s\p{Z}])|(?P<sign>.)",
    regex.DOTALL,
)
_NAMES = {"digits": DIGITS, "letter": OTHER, "space": SPACES, "sign": SIGNS}


@cache
def _kind(character: str) -> str:
    match = _KINDS.match(character)
    assert match is not None
    name = str(match.lastgroup)
    return _NAMES.get(name, name)


def script_of(text: str) -> str:
    """Return the most frequent script of the text's letters. Among equally frequent scripts, return the first by name.

    For a text without letters, return `DIGITS` if it has digits. Otherwise return `SIGNS` if it has signs, else
    `SPACES`.
    """
    counted = Counter(map(_kind, text))
    for weak in (SPACES, SIGNS, DIGITS):
        if len(counted) > 1:
            counted.pop(weak, None)
    return min(counted, key=lambda kind: (-counted[kind], kind))
