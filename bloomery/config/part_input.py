"""Input of one part of a source: several whole files, or one piece of a large file."""

from __future__ import annotations

from typing import NamedTuple

from bloomery.config.section import Count, Positive, Section


class FilePiece(Section):
    """One piece of a file that is too large for one job."""

    number: Count
    """Number of the piece, from 0."""
    of: Positive
    """Number of pieces of the file."""

    def of_bytes(self, size: int) -> tuple[int, int]:
        """Return the first byte of the piece and the byte after its end, in a file of `size` bytes."""
        return self.number * size // self.of, (self.number + 1) * size // self.of


class PartInput(NamedTuple):
    """Input of one part of a source."""

    files: list[str] | None
    """Files of the part, in order. None if the source is not made of files."""
    piece: FilePiece | None = None
    """Piece of the only file that the part reads. None if the part reads its files whole."""
