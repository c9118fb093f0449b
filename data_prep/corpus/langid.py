"""Language identification with CLD2: offline, compiled, the best of the measured detectors for BLOOM's languages.

It knows neither Bambara, Fon, Kikuyu nor source code: those have an empty accept set and are not judged by language.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pycld2

_NOT_FOR_CLD2 = re.compile("[\u064b-\u0670\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Arabic vowel signs, with which CLD2 takes vocalised Arabic for Bosnian; control and noncharacters, which it refuses.
Arabic-Indic digits go with them: digits say nothing of the language."""
_NONCHARACTERS = re.compile(
    "[" + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)) + "]"
)
"""The rest of what CLD2 refuses. A class with these is ten times slower, so it is only tried after a refusal."""


class Detection(NamedTuple):
    """What CLD2 says of a text: up to three codes with their shares of the text's bytes, the largest first."""

    reliable: bool
    codes: list[str]
    shares: list[float]


_UNKNOWN = Detection(False, [], [])


def detect(text: str) -> Detection:
    """Languages of a text; no codes when nothing is recognised."""
    text = _NOT_FOR_CLD2.sub("", text)
    try:
        reliable, _, details = pycld2.detect(text, isPlainText=True)
    except pycld2.error:
        try:
            reliable, _, details = pycld2.detect(_NONCHARACTERS.sub("", text), isPlainText=True)
        except pycld2.error:
            return _UNKNOWN
    known = [(code, percent / 100) for _, code, percent, _ in details if code != "un"]
    return Detection(bool(reliable), [code for code, _ in known], [share for _, share in known])
