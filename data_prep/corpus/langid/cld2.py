"""CLD2: offline, compiled, the best of the measured detectors for BLOOM's languages.

It knows neither Bambara, Fon, Kikuyu nor source code.
"""

from __future__ import annotations

import re

import pycld2

from data_prep.corpus.langid.detection import UNKNOWN, Detection

_NOT_FOR_CLD2 = re.compile("[\u064b-\u0670\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Arabic vowel signs, with which CLD2 takes vocalised Arabic for Bosnian; control and noncharacters, which it refuses.
Arabic-Indic digits go with them: digits say nothing of the language."""
_NONCHARACTERS = re.compile(
    "[" + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)) + "]"
)
"""The rest of what CLD2 refuses. A class with these is ten times slower, so it is only tried after a refusal."""

CODES = frozenset(code for name, code in pycld2.LANGUAGES if name in set(pycld2.DETECTED_LANGUAGES))
"""Every code that CLD2 can answer with."""


def detect(text: str) -> Detection:
    """Languages of a text; no codes when nothing is recognised."""
    text = _NOT_FOR_CLD2.sub("", text)
    try:
        reliable, _, details = pycld2.detect(text, isPlainText=True)
    except pycld2.error:
        try:
            reliable, _, details = pycld2.detect(_NONCHARACTERS.sub("", text), isPlainText=True)
        except pycld2.error:
            return UNKNOWN
    known = [(code, percent / 100) for _, code, percent, _ in details if code != "un"]
    return Detection(bool(reliable), [code for code, _ in known], [share for _, share in known])
