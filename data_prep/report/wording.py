"""Format numbers and language attributes for the HTML pages."""

from __future__ import annotations

NARROW = "\u202f"
"""Narrow no-break space, between a number and its unit and between groups of three digits."""

RIGHT_TO_LEFT = frozenset({"ar", "ur"})
_BCP47 = {"zhs": "zh-Hans", "zht": "zh-Hant", "code": ""}


def count(value: int) -> str:
    """Format a count with groups of three digits: `1234567` -> `1 234 567`."""
    return f"{value:,}".replace(",", NARROW)


def number(value: float) -> str:
    """Format a limit: `0.25`, `12`, `100 000`."""
    return count(round(value)) if value >= 1000 else f"{value:.6g}"


def documents(value: int) -> str:
    """Format a number of documents: `1 document`, `2 documents`."""
    return f"{count(value)} document{'' if value == 1 else 's'}"


def percent(share: float) -> str:
    """Format a share as a percentage: `0.034` -> `3.4 %`.

    A small positive share is never shown as 0 %, and a share below 1 is never shown as 100 %.
    """
    if 0 < share < 0.0005:
        return f"<{NARROW}0.1{NARROW}%"
    if share < 0.0995 or 0.995 <= share < 1:
        return f"{min(100 * share, 99.9):.1f}{NARROW}%" if share else f"0{NARROW}%"
    return f"{100 * share:.0f}{NARROW}%"


def language_attributes(code: str) -> str:
    """Return the HTML attributes for text in a language: its BCP 47 tag and its writing direction."""
    tag = _BCP47.get(code, code)
    direction = "rtl" if code in RIGHT_TO_LEFT else "ltr" if code == "code" else "auto"
    return f" lang='{tag}' dir='{direction}'"
