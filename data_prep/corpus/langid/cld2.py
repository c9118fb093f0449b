"""CLD2, a compiled detector that works offline. It is the best of the measured detectors for BLOOM's languages.

CLD2 does not support Bambara, Fon, Kikuyu or source code.
"""

from __future__ import annotations

import re

import pycld2

from data_prep.corpus.langid.detection import UNKNOWN, Detection

_NOT_FOR_CLD2 = re.compile("[\u064b-\u0670\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that are removed before detection. Because of Arabic vowel signs, CLD2 mistakes vocalised Arabic for
Bosnian. Control characters and noncharacters make CLD2 fail. The range also contains Arabic-Indic digits, which carry
no information about the language."""
_NONCHARACTERS = re.compile(
    "[" + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)) + "]"
)
"""The other characters that make CLD2 fail. This pattern is ten times slower, so it is used only after a failure."""

CODES = frozenset(code for name, code in pycld2.LANGUAGES if name in set(pycld2.DETECTED_LANGUAGES))
"""Every code that CLD2 can return."""


def detect(text: str) -> Detection:
    """Return the languages of a text. The result has no codes if no language is recognised."""
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
