"""Text of other programs and people, made safe to print on a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, and characters that change the direction of the text after them."""


def visible_text(text: str) -> str:
    r"""Return `text` with every control character written out (`\x1b`), so that a terminal only shows the text.

    Tabs and line feeds are kept. A carriage return before a line feed is dropped.
    """
    return _CONTROL.sub(lambda match: _escaped(match.group()), text.replace("\r\n", "\n"))


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
