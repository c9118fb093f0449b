"""Format tokens as readable HTML.

The text is escaped, and invisible characters are shown as code points. The writing direction of a token does not affect
other text.
"""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import groupby
from typing import Any

from data_prep.report.wording import count

_RUN = 4
"""A run of at least this many equal invisible characters is written once, with its length."""


def token_html(token: dict[str, Any]) -> str:
    """Return the HTML of a token from one of the report's lists."""
    if token["text"] is None:
        return f"<code class='token' title='bytes that are not a whole character'>{token['bytes']}</code>"
    parts: list[str] = []
    for shown, run in groupby(token["text"], key=_name):
        characters = "".join(run)
        if shown is None:
            mark = "◌" if unicodedata.category(characters[0]).startswith("M") and not parts else ""
            parts.append(mark + escape(characters))
        elif len(characters) < _RUN:
            parts.append(f"<i>{shown}</i>" * len(characters))
        else:
            parts.append(f"<i>{shown} × {len(characters)}</i>")
    return f"<bdi class='token'>{''.join(parts)}</bdi>"


def _name(character: str) -> str | None:
    """Return the written form of an invisible character, or None for a visible one."""
    if character == " ":
        return "␣"
    if unicodedata.category(character)[0] in "CZ":
        return f"U+{ord(character):04X}"
    return None


def token_list(tokens: list[dict[str, Any]], total: int) -> str:
    """Return an HTML list of tokens with their number of uses, and the number of tokens that are not listed."""
    items = "".join(
        f"<li title='id {token['id']}'>{token_html(token)}"
        + (f"<small>{count(token['used'])}×</small></li>" if token["used"] else "</li>")
        for token in tokens
    )
    more = f"<p>and {count(total - len(tokens))} more</p>" if total > len(tokens) else ""
    return f"<ul class='tokens'>{items}</ul>{more}"
