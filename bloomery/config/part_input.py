"""Input of one part of a source: several whole files, or one piece of a large file."""

from __future__ import annotations

from typing import NamedTuple

from bloomery.config.section import Count, Positive, Section


class FilePiece(Section):
    """One piece of a file that is too large for one job."""

    number: Count
    """Number of this piece within the file, counted from 0."""
    of: Positive
    """Number of pieces into which the file is divided."""

    def of_bytes(self, size: int) -> tuple[int, int]:
        """Return the offsets at which the piece begins and ends, in bytes, for a file of `size` bytes. The end is
        excluded."""
        return self.number * size // self.of, (self.number + 1) * size // self.of


class PartInput(NamedTuple):
    """Input of one part of a source."""

    files: list[str] | None
    """Files that the part reads, in order. The value is None if the source does not consist of files."""
    piece: FilePiece | None = None
    """The piece to read, if the part reads one piece of one large file. The value is None if the part reads whole
    files."""
