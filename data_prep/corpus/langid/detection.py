"""What every detector says of a text, and the rule by which two of them are joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MOST_CODES = 3
"""CLD2 names three languages of a text at most; the others keep to it."""


class Detection(NamedTuple):
    """Languages of a text: up to three codes with their shares of the text's bytes, the largest first."""

    reliable: bool
    codes: list[str]
    shares: list[float]


UNKNOWN = Detection(False, [], [])


def from_shares(shares: Mapping[str, float], reliable: bool) -> Detection:
    """The largest shares, in whole percents as CLD2's are; equal ones by code."""
    percents = {code: round(share * 100) for code, share in shares.items()}
    largest = sorted((-percent, code) for code, percent in percents.items() if percent)[:MOST_CODES]
    return Detection(reliable, [code for _, code in largest], [-percent / 100 for percent, _ in largest])


def joined(first: Detection, second: Mapping[str, float]) -> Detection:
    """`first`, but for the shares of the text that `second` claims: the codes of `first` have what is left at most."""
    claimed = sum(second.values())
    if not claimed:
        return first
    scale = min(1.0, max(0.0, 1 - claimed) / max(sum(first.shares), 0.01))
    shares = {code: share * scale for code, share in zip(first.codes, first.shares, strict=True)}
    return from_shares(shares | dict(second), first.reliable or claimed >= 0.5)
