"""Make untrusted text safe to print: control characters cannot affect the terminal, invisible ones become visible."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Zero-width (non-)joiners, which are printed unchanged because Indic and Persian words and emoji need them."""


def visible(text: str, *, newlines: bool = False) -> str:
    """Return `text` with control, bidirectional and other format characters replaced by visible symbols.

    If `newlines` is true, line breaks are kept after their symbol.
    """
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
