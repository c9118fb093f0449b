"""The input of a finder: a text, its language, and the runs of digits that may be phones, cards or identifiers."""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from typing import NamedTuple

_SPACES, _HYPHENS = "\u00a0\u2009\u202f", "\u2010\u2011\u2013"
# The Unicode planes from 2 on have no digits. They are skipped to save time, because every job that redacts computes
# this table when it imports the module.
_DIGITS = {
    code: str(unicodedata.decimal(chr(code))) for code in range(0x20000) if unicodedata.category(chr(code)) == "Nd"
}
_PLAIN = _DIGITS | {ord(space): " " for space in _SPACES} | {ord(hyphen): "-" for hyphen in _HYPHENS}

# A run has seven digits or more. Between two digits there may be one separator, with a bracket on either side of it:
# `01 23`, `011) 45`, `33 (0)6`. The pattern is possessive, so that a run is read once. A set of characters
# matches the first digit. It is searched twice as fast as `\d` if all its characters are in the Basic Multilingual
# Plane, which contains the digits of all scripts of the supported languages.
_FIRST = "".join(chr(code) for code in _DIGITS if code <= 0xFFFF)
_RUN = re.compile(rf"[{_FIRST}](?:\)?[ .\-/{_SPACES}{_HYPHENS}]?\(?\d){{6,}}+")

_LATIN = r"A-Za-z0-9_À-ÖØ-öø-ɏ"
"""Characters that may not touch a number. Letters of other scripts may touch it, as some scripts write no spaces."""
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
"""Number of characters before a number that are searched for a word that describes the number."""


class Number(NamedTuple):
    """A run of at least seven digits with single separators."""

    start: int
    """Position of the first digit in the text."""
    end: int
    """Position after the last digit in the text."""
    written: str
    """The run as written, character by character, with its digits, spaces and hyphens converted to ASCII."""
    digits: str
    """The digits alone, in ASCII."""


class Passage:
    """A text and its language code, which is empty if the language is unknown."""

    def __init__(self, text: str, language: str = "") -> None:
        self.text = text
        self.language = language

    @cached_property
    def numbers(self) -> list[Number]:
        """All runs of digits, in the order of the text."""
        found = []
        for match in _RUN.finditer(self.text):
            written = match.group()
            if not written.isascii():
                written = written.translate(_PLAIN)
            found.append(Number(*match.span(), written, "".join(filter(str.isdigit, written))))
        return found

    def stands_alone(self, start: int, end: int) -> bool:
        """Return whether the text from `start` to `end` is no part of a longer number, word, path, price or URL."""
        return self.opens(start) and not _AFTER.match(self.text, end)

    def opens(self, start: int) -> bool:
        """Return whether the text directly before `start` allows a number to begin at `start`."""
        return not _BEFORE.search(self.text[max(0, start - 2) : start])

    def before(self, start: int) -> str:
        """Return the text directly before `start` that a `label` pattern may match, at most `CONTEXT_CHARACTERS`."""
        window = self.text[max(0, start - CONTEXT_CHARACTERS) : start]
        return _BARRIER.split(window)[-1]

    def is_other_number(self, start: int) -> bool:
        """Return whether a word directly before `start` marks an ISBN, an order number, a version or the like."""
        return bool(_OTHER_NUMBER.search(self.text, max(0, start - _OTHER_CHARACTERS), start))


def label(words: str) -> re.Pattern[str]:
    """Return a pattern for `Passage.before`: one of the words, then at most 16 characters up to the number.

    These characters may not be a digit, `<`, `>`, `@` or a newline. So a match does not depend on whether other
    personal data before the number have been replaced. Latin words must be whole words; `words` is an alternation.
    """
    return re.compile(rf"(?<![{_LATIN}])(?:{words})(?![a-zß-öø-ɏ])[^\d@<>\n]{{0,16}}\Z", re.IGNORECASE)
