"""Report damaged lines of a log, which its readers skip."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.progress import say
from bloomery.base.visible_text import visible_text

_reported: set[tuple[Path, int, int]] = set()
"""Damaged files that were reported: path, size in bytes, number of damaged lines."""


def report_damaged_lines(path: Path, damaged: int, example: str) -> None:
    """Report the number of damaged lines of a file, and one of them. Report the same state of a file once."""
    if not damaged:
        return
    state = path, path.stat().st_size, damaged
    if state not in _reported:
        _reported.add(state)
        say(f"{path}: {damaged} damaged line{'s are' if damaged > 1 else ' is'} skipped; {visible_text(example)}")
