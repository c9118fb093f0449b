"""Read lines of plain, `.gz` and `.zst` files with bounded memory. A line beyond the limit is skipped and never held.

If a compressed stream is truncated or corrupt, the lines before the damage are yielded, and the damage is one bad row
of the file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

from bloomery.config.part_input import FilePiece
from data_prep.corpus.rows import BadRow, excerpt_of, name_of
from data_prep.corpus.sources.file_piece import BLOCK_BYTES, PieceStream


def read_lines(path: str, limit: int, piece: FilePiece | None = None) -> Iterator[tuple[int, bytes] | BadRow]:
    """Yield (number, bytes) of each line of at most `limit` bytes, and a bad row for each longer line.

    Numbers begin at 1. The bytes do not include the line end. For a piece of the file, only lines that begin in the
    piece are yielded, with their numbers in the whole file.

    Raises:
        InputError: the file cannot be opened or read by the operating system.
    """
    name, number = name_of(path), 0
    stream = PieceStream(path, piece)
    with io.BufferedReader(stream, BLOCK_BYTES) as reader:
        is_open = stream.skip_to_piece()
        number, position = stream.lines, stream.begins or 0
        if is_open:
            skipped, ended = _skip_line(reader)
            position += skipped
            number += ended or stream.damage is None
        while line := reader.readline(limit + 2):
            if not stream.owns(position):
                return
            body = line.rstrip(b"\r\n")
            ended = line.endswith(b"\n")
            whole = ended or len(line) < limit + 2
            size = len(line)
            if not whole:
                skipped, ended = _skip_line(reader)
                size += skipped
            if stream.damage is not None and not ended:
                break  # the rest of this line is lost
            position += size
            number += 1
            if len(body) > limit or not whole:
                yield BadRow(
                    name,
                    number,
                    "too long",
                    f"the line has {size} bytes, the limit is {limit} bytes",
                    excerpt_of(line),
                )
                continue
            if number == 1:
                body = body.removeprefix(b"\xef\xbb\xbf")
            yield number, body
    if stream.damage is not None:
        if (damage := stream.owned_damage()) is not None:
            line_number = max(number, stream.lines) + 1
            yield BadRow(name, line_number, "damaged file", f"{damage}; only the lines before the damage are used")
        return
    if number == 0 and (piece is None or piece.number == 0):
        yield BadRow(name, None, "empty file")


def _skip_line(stream: BinaryIO) -> tuple[int, bool]:
    """Skip the rest of the line; return the number of skipped bytes, and whether the line ends with a line feed."""
    skipped = 0
    while block := stream.readline(BLOCK_BYTES):
        skipped += len(block)
        if block.endswith(b"\n"):
            return skipped, True
    return skipped, False


def decode_line(data: bytes, file: str, line: int) -> str | BadRow:
    """Return the line as text, or a bad row if it contains a NUL byte or invalid UTF-8."""
    if b"\0" in data:
        return BadRow(file, line, "NUL byte", f"at byte {data.index(0)}", excerpt_of(data))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return BadRow(file, line, "invalid UTF-8", f"{error.reason} at byte {error.start}", excerpt_of(data))
