"""Read a file, or one piece of a file that is too large for one job, as a stream of decompressed bytes.

Piece k of n of a file of `size` bytes owns the lines and records that begin in bytes [k * size / n, (k + 1) * size / n)
of the file. A compressed file is fed to the decompressor in blocks of a fixed size. The position of a decompressed byte
is the position of the block that produced it, so the pieces are the same on every read. The bytes before a piece are
decompressed to count their line ends, but not parsed. So rows have the same numbers, and the same keys, as in a file
that is read whole.

The cost: n jobs read the file n / 2 times in total. A `.jsonl.zst` of 20 GB has 75 pieces at 256 MiB per shard. The
last job skips about 60 GB of text before its piece, which takes two minutes at 500 MB/s. Split larger files.
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
_FEED_BYTES = 1 << 11  # 4 bytes of zstd can expand to 128 KiB, so one feed of a malicious file gives at most 64 MiB
_MAX_WINDOW_BYTES = 1 << 31  # `zstd --long=31`, which large published corpora use
_WHOLE = FilePiece(number=0, of=1)


class DamageError(Exception):
    """Decompression failed at the block at `offset` of the file."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


class PieceStream(io.RawIOBase):
    """Stream of a file's decompressed bytes from its beginning. It finds the bounds of the piece while it is read."""

    def __init__(self, path: str, piece: FilePiece | None = None) -> None:
        """Open a file. Raises InputError if the file cannot be opened."""
        self._path = path
        self._file = _open(path)
        self._size = os.fstat(self._file.fileno()).st_size
        self._start, self._end = (piece or _WHOLE).of_bytes(self._size)
        self._blocks = _blocks(self._file, Path(path).suffix.lower(), (self._start, self._end))
        self._block = b""
        self._ready = memoryview(b"")
        self._produced = 0
        self.begins: int | None = None
        """Number of decompressed bytes before the piece; None until the stream has reached the piece."""
        self.ends: int | None = None
        """Number of decompressed bytes up to the end of the piece; None until the stream has reached this end."""
        self.lines = 0
        """Number of line ends that `skip_to_piece` skipped."""
        self.damage: DamageError | None = None
        """Damage at which the stream ended; None if no damage was found so far.

        The stream ends at damage as it does at the end of a file, and raises no exception. So a reader that collects
        several blocks gets all bytes before the damage.
        """

    def readable(self) -> bool:
        """Return True, because the stream can be read."""
        return True

    def close(self) -> None:
        """Close the stream and its file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with the next bytes and return their number, which is 0 at the end of the file and at damage.

        Raises InputError if the operating system cannot read the file.
        """
        if not self._ready and not self._advance():
            return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def skip_to_piece(self) -> bool:
        """Skip the bytes before the piece and count their line ends in `lines`.

        Return True if the piece begins inside a line.
        """
        is_open = False
        while self._advance() and self.begins is None:
            self.lines += self._block.count(b"\n")
            is_open = not self._block.endswith(b"\n")
        return is_open

    def owns(self, position: int) -> bool:
        """Return whether the byte at `position` belongs to this piece. The byte must have been read already."""
        return self.begins is not None and position >= self.begins and (self.ends is None or position < self.ends)

    def owned_damage(self) -> DamageError | None:
        """Return the damage if this piece has to report it. Exactly one piece of the file reports it."""
        if self.damage is None or not self._start <= min(self.damage.offset, self._size - 1) < self._end:
            return None
        return self.damage

    def _advance(self) -> bool:
        """Go to the next block. Return False at the end of the file and at damage."""
        try:
            offset, self._block = next(self._blocks, (-1, b""))
        except OSError as error:
            raise _unreadable(self._path, error) from error
        except DamageError as damage:
            self.damage, (offset, self._block) = damage, (-1, b"")
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
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> InputError:
    what = f"cannot be read ({error.strerror or error})"
    return InputError(what, where=path, expected="an existing file that you may read, on a disk without errors")


def _blocks(file: BinaryIO, suffix: str, stops: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield (position in the file, decompressed bytes). The suffix of the file's name selects the decompressor."""
    if suffix == ".gz":
        return _decompressed(file, lambda: zlib.decompressobj(wbits=31), padding=b"\0")
    if suffix == ".zst":
        return _decompressed(
            file, lambda: zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        )
    return _plain(file, stops)


def _plain(file: BinaryIO, stops: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of an uncompressed file. Blocks end at the bounds of the piece."""
    offset = 0
    for stop in (*stops, sys.maxsize):
        while block := file.read(min(BLOCK_BYTES, stop - offset)):
            yield offset, block
            offset += len(block)


def _decompressed(file: BinaryIO, new_frame: Callable[[], Any], padding: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of all frames (zstd) or members (gzip) of a file. Zeros between gzip members are skipped."""
    offset, frame = 0, None
    while fed := file.read(_FEED_BYTES):
        rest = fed if frame else fed.lstrip(padding)
        while rest:
            frame = frame or new_frame()
            try:
                block = frame.decompress(rest)
            except (zlib.error, zstandard.ZstdError) as error:
                raise DamageError("the compressed data is damaged", offset) from error
            if block:
                yield offset, block
            rest, frame = (frame.unused_data.lstrip(padding), None) if frame.eof else (b"", frame)
        offset += len(fed)
    if frame is not None:
        raise DamageError("the file is truncated", offset)
