"""A token as a person can read it: escaped, what cannot be seen as code points, in a direction of its own."""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import groupby
from typing import Any

from data_prep.report.wording import count

_RUN = 4
"""So many equal invisible characters are written once, with their number."""


def token_html(token: dict[str, Any]) -> str:
    """HTML of a token of the report's lists."""
    if token["text"] is None:
        return f"<code class='token' title='bytes that are no character'>{token['bytes']}</code>"
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
    """How a character that cannot be seen is written; None for one that can."""
    if character == " ":
        return "␣"
    if unicodedata.category(character)[0] in "CZ":
        return f"U+{ord(character):04X}"
    return None


def token_list(tokens: list[dict[str, Any]], total: int) -> str:
    """Tokens with how often each is used, and how many more there are."""
    items = "".join(
        f"<li title='id {token['id']}'>{token_html(token)}"
        + (f"<small>{count(token['used'])}×</small></li>" if token["used"] else "</li>")
        for token in tokens
    )
    more = f"<p>and {count(total - len(tokens))} more</p>" if total > len(tokens) else ""
    return f"<ul class='tokens'>{items}</ul>{more}"
