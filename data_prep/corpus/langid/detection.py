"""The result that every detector returns for a text, and the function that joins the results of two detectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MOST_CODES = 3
"""Maximum number of languages in a detection. CLD2 returns at most three; other detectors use the same limit."""


class Detection(NamedTuple):
    """Languages of a text: up to three codes with their shares of the text's bytes, largest share first."""

    reliable: bool
    codes: list[str]
    shares: list[float]


UNKNOWN = Detection(False, [], [])


def from_shares(shares: Mapping[str, float], reliable: bool) -> Detection:
    """Return a detection with the largest shares, rounded to whole percents like CLD2's.

    Equal shares are sorted by code.
    """
    percents = {code: round(share * 100) for code, share in shares.items()}
    largest = sorted((-percent, code) for code, percent in percents.items() if percent)[:MOST_CODES]
    return Detection(reliable, [code for _, code in largest], [-percent / 100 for percent, _ in largest])


def joined(first: Detection, second: Mapping[str, float]) -> Detection:
    """Join two results: `second` keeps its shares, and the shares of `first` are scaled down to fit into the rest."""
    claimed = sum(second.values())
    if not claimed:
        return first
    scale = min(1.0, max(0.0, 1 - claimed) / max(sum(first.shares), 0.01))
    shares = {code: share * scale for code, share in zip(first.codes, first.shares, strict=True)}
    return from_shares(shares | dict(second), first.reliable or claimed >= 0.5)
