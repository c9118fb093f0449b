"""Lines of plain, `.gz` and `.zst` files with bounded memory: a line beyond the limit is skipped, never held.

Damage (a cut or corrupt compressed stream) costs what lies behind it: the lines before it are kept, and the damage is
one bad row of the file.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from bloomery.base.errors import InputError
from data_prep.corpus.rows import BadRow, excerpt_of, name_of

_BLOCK_BYTES = 1 << 20
_FEED_BYTES = 1 << 12  # a zstd block of 4 bytes can say 128 KiB, so a hostile file can swell one feed to 128 MiB
_MAX_WINDOW_BYTES = 1 << 31  # `zstd --long=31`, which large published corpora use


class _ZstdFrames(io.RawIOBase):
    """All frames of a `.zst` file as one stream.

    `zstandard`'s own reader ends quietly when a frame is cut; this one raises EOFError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._fed = b""
        self._ready = memoryview(b"")
        self._frame: Any = None

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def close(self) -> None:
        """Close the file below, too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next; 0 at the end. Raises EOFError when the last frame is cut."""
        while not self._ready:
            self._fed = self._fed or self._file.read(_FEED_BYTES)
            if not self._fed:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is cut")
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
            self._ready = memoryview(self._frame.decompress(self._fed))
            self._fed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def open_stream(path: str) -> BinaryIO:
    """Open a file for reading, decompressed by what its name ends in (`.gz`, `.zst`, in either case)."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    file = Path(path).open("rb")  # noqa: SIM115 (the caller closes it)
    if suffix == ".zst":
        return io.BufferedReader(_ZstdFrames(file), _BLOCK_BYTES)
    return file


def read_lines(path: str, limit: int) -> Iterator[tuple[int, bytes] | BadRow]:
    """Number (from 1) and bytes (without line end) of each line of at most `limit` bytes; bad rows for the rest.

    Raises:
        InputError: the file cannot be opened or read by the operating system.
    """
    name = name_of(path)
    number = 0
    try:
        with open_stream(path) as stream:
            while line := stream.readline(limit + 2):
                number += 1
                body = line.rstrip(b"\r\n")
                whole = line.endswith(b"\n") or len(line) < limit + 2
                if len(body) > limit or not whole:
                    size = len(line) if whole else len(line) + _skip_line(stream)
                    yield BadRow(name, number, "too long", f"{size} bytes, the limit is {limit}", excerpt_of(line))
                    continue
                if number == 1:
                    body = body.removeprefix(b"\xef\xbb\xbf")
                yield number, body
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        yield BadRow(name, number + 1, "damaged file", f"{error}; the lines before are kept")
        return
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", where=path) from error
    if number == 0:
        yield BadRow(name, None, "empty file")


def _skip_line(stream: BinaryIO) -> int:
    """Read on to the end of the line; returns the bytes passed over."""
    skipped = 0
    while block := stream.readline(_BLOCK_BYTES):
        skipped += len(block)
        if block.endswith(b"\n"):
            break
    return skipped


def decode_line(data: bytes, file: str, line: int) -> str | BadRow:
    """The line as text; a NUL byte or invalid UTF-8 makes it a bad row."""
    if b"\0" in data:
        return BadRow(file, line, "NUL byte", f"at byte {data.index(0)}", excerpt_of(data))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return BadRow(file, line, "invalid UTF-8", f"{error.reason} at byte {error.start}", excerpt_of(data))
