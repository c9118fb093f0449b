"""Find the cause of a failure in log files, so that a person need not read them first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bloomery.base.visible_text import visible_text

_TAIL_BYTES = 65536
_LAST_LINES = 5
_MOST_LINES = 12
_OURS = re.compile(r"(rank \d+: |error: )")
"""Beginning of a line that is an error message of Bloomery (`bloomery.cli`, `training.loop.main`)."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")


def failure_cause(logs: Sequence[Path]) -> tuple[list[str], Path | None]:
    """Return the lines that say why a job failed, and the log that they are from.

    The lines are the last error message of Bloomery in a log. If no log has one, they are the last exception of Python.
    If no log has an exception either, they are the last lines of the first log that is not empty. Control characters
    are made visible.

    Returns:
        The lines (at most 12) and the path of their log. If every log is empty or unreadable, the result is an empty
        list and the first path.
    """
    best: tuple[int, list[str], Path] | None = None
    for path in logs:
        lines = _tail(path)
        if not lines:
            continue
        rank, found = _cause(lines)
        if best is None or rank < best[0]:
            best = (rank, found, path)
    if best is None:
        return [], logs[0] if logs else None
    return best[1], best[2]


def is_error_message(line: str) -> bool:
    """Return whether an error message of Bloomery begins with this line."""
    return _OURS.match(line) is not None


def last_line(path: Path) -> str:
    """Return the last non-empty line of a log, or an empty text if there is no such line. Control characters are made
    visible."""
    lines = _tail(path)
    return lines[-1].strip() if lines else ""


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = handle.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [visible_text(line) for line in text.splitlines() if line.strip()]


def _cause(lines: list[str]) -> tuple[int, list[str]]:
    """Return the rank of the cause (0 is the best) and the lines that describe it."""
    for pattern, rank in ((_OURS, 0), (_EXCEPTION, 1)):
        starts = [number for number, line in enumerate(lines) if pattern.match(line)]
        if starts:
            first = starts[-1]
            end = first + 1
            # An error with several problems lists them indented.
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            return rank, lines[first : min(end, first + _MOST_LINES)]
    return 2, lines[-_LAST_LINES:]
