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
"""How a line begins that an error of ours writes (`bloomery.cli`, `training.loop.main`)."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")


def failure_cause(logs: Sequence[Path]) -> tuple[list[str], Path | None]:
    """Return the lines that say why a job failed, and the log that they are from.

    The lines are those of the last error message of ours; else the last exception of Python; else the last lines of
    the log. The first log that holds an error message is taken, or else the first one that is not empty. Terminal
    escapes are made visible.

    Returns:
        The lines (at most 12) and the log's path; no lines and the first path if no log can be read.
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
    """Whether an error of Bloomery begins with this line."""
    return _OURS.match(line) is not None


def last_line(path: Path) -> str:
    """Return the last line of a log that is not empty, with control characters made visible; empty if there is none."""
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
    """Return how good the cause is (0 is best), and its lines."""
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
