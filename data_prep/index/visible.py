"""Text of strangers on a terminal: nothing in it steers the terminal, and what has no shape is shown as a sign."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Invisible, but part of how Indic words, Persian ones and emoji are written."""


def visible(text: str, *, newlines: bool = False) -> str:
    """`text` with control, bidirectional and other format characters made visible; `newlines`: these stay."""
    return "".join(_shown(character, newlines) for character in text)


def _shown(character: str, newlines: bool) -> str:
    code = ord(character)
    if character == "\n":
        return "⏎\n" if newlines else "⏎"
    if code < 0x20:
        return "⇥" if character == "\t" else chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    shapeless = unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Zl", "Zp")
    return f"⟨U+{code:04X}⟩" if shapeless and character not in _JOINERS else character
