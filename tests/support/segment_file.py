"""Make the record of a segment, which the tests write to a file."""

from __future__ import annotations

from bloomery.contracts.segment import Segment


def segment(number, status):
    return Segment(
        number=number,
        status=status,
        first_iteration=1,
        iteration=10 * number,
        total_iterations=20,
        consumed_samples=1,
        consumed_tokens=1,
        checkpoint=None,
        identity="",
    )
