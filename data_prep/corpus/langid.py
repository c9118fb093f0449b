"""Language identification with CLD2: offline, compiled, the best of the measured detectors for BLOOM's languages.

It knows neither Bambara, Fon, Kikuyu nor source code: those have an empty accept set and are not judged by language.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pycld2

_PLANES = "".join(f"\\U{plane:04x}fffe\\U{plane:04x}ffff" for plane in range(17))
_NOT_FOR_CLD2 = re.compile(f"[\\u064b-\\u0670\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ufdd0-\\ufdef{_PLANES}]")
"""Arabic vowel signs, with which CLD2 takes vocalised Arabic for Bosnian; control and noncharacters, which it
refuses. Arabic-Indic digits go with them: digits say nothing of the language."""


class Detection(NamedTuple):
    """What CLD2 says of a text: up to three codes with their shares of the text's bytes, the largest first."""

    reliable: bool
    codes: list[str]
    shares: list[float]


_UNKNOWN = Detection(False, [], [])


def detect(text: str) -> Detection:
    """Languages of a text; no codes when nothing is recognised."""
    try:
        reliable, _, details = pycld2.detect(_NOT_FOR_CLD2.sub("", text).encode("utf-8"), isPlainText=True)
    except pycld2.error:
        return _UNKNOWN
    known = [(code, percent / 100) for _, code, percent, _ in details if code != "un"]
    return Detection(bool(reliable), [code for code, _ in known], [share for _, share in known])
