"""A file, or one piece of a file that is too large for one job, as a stream of its decompressed bytes.

Piece k of n of a file of `size` bytes on disk owns what begins in its bytes [k * size / n, (k + 1) * size / n). In a
compressed file the place of a byte is that of the feed (of a fixed size) which made the decompressor give it, so that
the pieces of a file are the same whenever it is read. What comes before a piece is decompressed and its line ends are
counted, so that rows have the numbers, and so the keys, of a file that is read whole; it is not parsed.

The cost: n jobs go through a file n / 2 times. A 20 GB `.jsonl.zst` at 256 MiB a shard has 75 pieces, and the last job
passes over some 60 GB of text before its own: two minutes (500 MB/s). Larger files had better be cut by their writer.
"""

from __future__ import annotations

import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from bloomery.base.errors import InputError
from bloomery.config.part_input import FilePiece

BLOCK_BYTES = 1 << 20
_FEED_BYTES = 1 << 11  # a zstd block of 4 bytes can say 128 KiB, so a hostile file can swell one feed to 64 MiB
_MAX_WINDOW_BYTES = 1 << 31  # `zstd --long=31`, which large published corpora use
_WHOLE = FilePiece(number=0, of=1)


class DamageError(Exception):
    """The file cannot be decompressed beyond the feed at `offset`."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


class PieceStream(io.RawIOBase):
    """A file's decompressed bytes from its beginning; it learns on the way where the piece begins and ends in them."""

    def __init__(self, path: str, piece: FilePiece | None = None) -> None:
        """Open a file. Raises InputError when that is not possible."""
        self._path = path
        self._file = _open(path)
        self._size = os.fstat(self._file.fileno()).st_size
        self._start, self._end = (piece or _WHOLE).of_bytes(self._size)
        self._blocks = _blocks(self._file, Path(path).suffix.lower(), (self._start, self._end))
        self._block = b""
        self._ready = memoryview(b"")
        self._produced = 0
        self.begins: int | None = None
        """Number of bytes before the piece; None as long as reading has not come there."""
        self.ends: int | None = None
        """Number of bytes before what follows the piece; None as above."""
        self.lines = 0
        """Line ends that `skip_to_piece` passed over."""

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def close(self) -> None:
        """Close the file below, too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next; 0 at the end. Raises DamageError, and InputError when reading fails."""
        if not self._ready and not self._advance():
            return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def skip_to_piece(self) -> bool:
        """Pass over what comes before the piece, counting `lines`; True when a line is open where the piece begins."""
        is_open = False
        while self._advance() and self.begins is None:
            self.lines += self._block.count(b"\n")
            is_open = not self._block.endswith(b"\n")
        return is_open

    def owns(self, position: int) -> bool:
        """Whether the byte at `position`, which has been read, is of this piece."""
        return self.begins is not None and position >= self.begins and (self.ends is None or position < self.ends)

    def owns_damage(self, damage: DamageError) -> bool:
        """Whether it is for this piece to report the damage: one of the pieces does."""
        return self._start <= min(damage.offset, self._size - 1) < self._end

    def _advance(self) -> bool:
        """Go to the next block; False at the end."""
        try:
            offset, self._block = next(self._blocks, (-1, b""))
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})", where=self._path) from error
        self._ready = memoryview(self._block)
        if offset < 0:
            return False
        if self.begins is None and offset >= self._start:
            self.begins = self._produced
        if self.ends is None and offset >= self._end:
            self.ends = self._produced
        self._produced += len(self._block)
        return True


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", where=path) from error


def _blocks(file: BinaryIO, suffix: str, stops: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """(place in the file, what it holds) from the beginning, decompressed by what the file's name ends in."""
    if suffix == ".gz":
        return _decompressed(file, lambda: zlib.decompressobj(wbits=31), padding=b"\0")
    if suffix == ".zst":
        return _decompressed(
            file, lambda: zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        )
    return _plain(file, stops)


def _plain(file: BinaryIO, stops: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """Blocks that begin where a piece does: a byte's place is its own."""
    offset = 0
    for stop in (*stops, sys.maxsize):
        while block := file.read(min(BLOCK_BYTES, stop - offset)):
            yield offset, block
            offset += len(block)


def _decompressed(file: BinaryIO, new_frame: Callable[[], Any], padding: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """Blocks of all frames (zstd) or members (gzip) of a file; zeros between members are passed over."""
    offset, frame = 0, None
    while fed := file.read(_FEED_BYTES):
        rest = fed if frame else fed.lstrip(padding)
        while rest:
            frame = frame or new_frame()
            try:
                block = frame.decompress(rest)
            except (zlib.error, zstandard.ZstdError) as error:
                raise DamageError(str(error), offset) from error
            if block:
                yield offset, block
            rest, frame = (frame.unused_data.lstrip(padding), None) if frame.eof else (b"", frame)
        offset += len(fed)
    if frame is not None:
        raise DamageError("the file is cut", offset)
