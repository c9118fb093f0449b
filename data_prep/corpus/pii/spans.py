"""Spans of a text: which of those that overlap stays, and putting something else in their place."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Characters `start` to `end` of a text and what they are."""

    start: int
    end: int
    kind: str


def resolve(found: Iterable[Span]) -> list[Span]:
    """Spans in the text's order without overlaps: of two that overlap the longer stays, else the earlier."""
    chosen: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start - span.end, span.start, span.kind)):
        place = bisect.bisect(chosen, span)
        after_last = place == 0 or chosen[place - 1].end <= span.start
        if after_last and (place == len(chosen) or span.end <= chosen[place].start):
            chosen.insert(place, span)
    return chosen


def replace(text: str, spans: Iterable[Span], substitute: Callable[[Span], str]) -> str:
    """The text with each span's substitute; `spans` are in order and do not overlap."""
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], substitute(span)]
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)
