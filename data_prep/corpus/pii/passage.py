"""What a finder looks at: a text, its language, and the runs of digits that phones, cards and identifiers share."""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from typing import NamedTuple

_SPACES, _HYPHENS = "\u00a0\u2009\u202f", "\u2010\u2011\u2013"
# Every job that redacts imports this: the planes from 2 on hold ideographs and no digit, so they are not gone through.
_DIGITS = {
    code: str(unicodedata.decimal(chr(code))) for code in range(0x20000) if unicodedata.category(chr(code)) == "Nd"
}
_PLAIN = _DIGITS | {ord(space): " " for space in _SPACES} | {ord(hyphen): "-" for hyphen in _HYPHENS}

# One separator between two digits, a bracket on either side of it: `01 23`, `011) 45`, `33 (0)6`. Seven digits or more;
# possessive, so that a run is read once. The first digit is a set, which is searched at twice the speed of `\d` as long
# as it lies in the Basic Multilingual Plane: the digits of all scripts of our languages do.
_FIRST = "".join(chr(code) for code in _DIGITS if code <= 0xFFFF)
_RUN = re.compile(rf"[{_FIRST}](?:\)?[ .\-/{_SPACES}{_HYPHENS}]?\(?\d){{6,}}+")

_LATIN = r"A-Za-z0-9_À-ÖØ-öø-ɏ"
"""Other scripts do not write a space between a word and a number, so their letters end neither."""
_BEFORE = re.compile(rf"(?:[{_LATIN}/=&#%$€£¥@\\+~^]|\d[.,:\-–])\Z")
_AFTER = re.compile(rf"[{_LATIN}%$€£¥@=²°#]|[.,:]\d|[\-–/][{_LATIN}]")
_OTHER_NUMBER = re.compile(
    r"(?<![A-Za-z])(?:isbn|issn|isni|doi|ean|upc|gtin|issue|order|invoice|ticket|bestellung|factura|facture|pedido|"
    r"ref(?:erence|\.)?|version|vol|订单号?|訂單號?|单号|編號|编号|书号|書號)"
    r"(?:[- ]?1[03])?[^\w<>@]{0,3}(?:no|number|id|n°)?[^\w<>@]{0,3}\Z",
    re.IGNORECASE,
)
_OTHER_CHARACTERS = 28
_BARRIER = re.compile(r"[\d@<>\n]")
CONTEXT_CHARACTERS = 48
"""How far back a word may stand that says what a number is, that word included."""


class Number(NamedTuple):
    """A run of at least seven digits with single separators."""

    start: int
    """Of its first digit."""
    end: int
    """After its last digit."""
    written: str
    """As it is written, character by character, but with ASCII digits, spaces and hyphens."""
    digits: str
    """Its digits alone, ASCII."""


class Passage:
    """A text and its language code (empty: not known)."""

    def __init__(self, text: str, language: str = "") -> None:
        self.text = text
        self.language = language

    @cached_property
    def numbers(self) -> list[Number]:
        """Every run of digits, in the text's order."""
        found = []
        for match in _RUN.finditer(self.text):
            written = match.group()
            if not written.isascii():
                written = written.translate(_PLAIN)
            found.append(Number(*match.span(), written, "".join(filter(str.isdigit, written))))
        return found

    def stands_alone(self, start: int, end: int) -> bool:
        """Whether the characters are no part of a longer number, word, path, price or query."""
        return self.opens(start) and not _AFTER.match(self.text, end)

    def opens(self, start: int) -> bool:
        """Whether a number may begin here."""
        return not _BEFORE.search(self.text[max(0, start - 2) : start])

    def before(self, start: int) -> str:
        """What stands right before, at most `CONTEXT_CHARACTERS`, up to where a `label` cannot reach."""
        window = self.text[max(0, start - CONTEXT_CHARACTERS) : start]
        return _BARRIER.split(window)[-1]

    def is_other_number(self, start: int) -> bool:
        """Whether a word right before says that this is an ISBN, an order, a version."""
        return bool(_OTHER_NUMBER.search(self.text, max(0, start - _OTHER_CHARACTERS), start))


def label(words: str) -> re.Pattern[str]:
    """A pattern for `Passage.before`: one of the words, then at most 16 characters before the number.

    Nothing in between may be a digit, a bracket of a placeholder or an `@`, so that replacing what stands there changes
    nothing. Latin words are whole words; `words` is an alternation.
    """
    return re.compile(rf"(?<![{_LATIN}])(?:{words})(?![a-zß-öø-ɏ])[^\d@<>\n]{{0,16}}\Z", re.IGNORECASE)
