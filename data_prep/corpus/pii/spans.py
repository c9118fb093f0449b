"""Spans of a text, with functions that resolve overlaps and replace spans."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Personal data of a kind in `text[start:end]`."""

    start: int
    end: int
    kind: str


def resolve(found: Iterable[Span]) -> list[Span]:
    """Return spans in the order of the text, without overlaps.

    Of two overlapping spans, the longer one is chosen; if they are equally long, the earlier one.
    """
    chosen: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start - span.end, span.start, span.kind)):
        place = bisect.bisect(chosen, span)
        after_last = place == 0 or chosen[place - 1].end <= span.start
        if after_last and (place == len(chosen) or span.end <= chosen[place].start):
            chosen.insert(place, span)
    return chosen


def replace(text: str, spans: Iterable[Span], substitute: Callable[[Span], str]) -> str:
    """Return the text with each span replaced by its substitute. `spans` are in order and do not overlap."""
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], substitute(span)]
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)
