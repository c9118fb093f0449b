"""Files of lines that somebody writes to, or that a killed writer left."""

from __future__ import annotations

from pathlib import Path

_BLOCK_BYTES = 1 << 16


def cut_unfinished_line(path: Path) -> None:
    """Cut what follows a file's last newline, reading from the end. Raises OSError where there is no such file."""
    with path.open("r+b") as handle:
        end = handle.seek(0, 2)
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            handle.seek(start)
            newline = handle.read(end - start).rfind(b"\n")
            if newline >= 0:
                handle.truncate(start + newline + 1)
                return
            end = start
        handle.truncate(0)
