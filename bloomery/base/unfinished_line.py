"""Text files whose last line may be incomplete, because a writer is active or was killed."""

from __future__ import annotations

from pathlib import Path

_BLOCK_BYTES = 1 << 16


def cut_unfinished_line(path: Path) -> None:
    """Remove the bytes after a file's last newline. The file is read from its end.

    Raises:
        OSError: the file does not exist or cannot be changed.
    """
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
