"""What one part of a source reads: small files together, or a piece of a large one."""

from __future__ import annotations

from typing import NamedTuple

from bloomery.config.section import Count, Positive, Section


class FilePiece(Section):
    """A piece of a file that is too large for one job."""

    number: Count
    """Number of the piece, from 0."""
    of: Positive
    """Pieces of the file."""

    def of_bytes(self, size: int) -> tuple[int, int]:
        """Where the piece of `size` bytes begins and ends."""
        return self.number * size // self.of, (self.number + 1) * size // self.of


class PartInput(NamedTuple):
    """What one part of a source reads."""

    files: list[str] | None
    """Files, in order; None for sources that are not files."""
    piece: FilePiece | None = None
    """The piece that is read of the one file; None: the files are read whole."""
