"""Read Xet's xorbs, which are chunks of [version u8, compressed length u24, scheme u8, length u24, data].

Scheme 0 is raw data, 1 is LZ4, and 2 is LZ4 of bytes that are grouped by four (BG4).
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class Chunk(NamedTuple):
    """One chunk of a xorb."""

    offset: int
    compressed: int
    scheme: int
    length: int


def hash_text(raw: bytes) -> str:
    """Return a hash as xet prints it: four little-endian 64-bit numbers."""
    return "".join(f"{word:016x}" for word in struct.unpack("<4Q", raw))


def parse_chunks(data: bytes) -> tuple[list[Chunk], int]:
    """Return the chunks before the footer, and the position after the last chunk."""
    position, chunks = 0, []
    while position + 8 <= len(data) and data[position : position + 7] != b"XETBLOB":
        compressed = int.from_bytes(data[position + 1 : position + 4], "little")
        length = int.from_bytes(data[position + 5 : position + 8], "little")
        chunks.append(Chunk(position, compressed, data[position + 4], length))
        position += 8 + compressed
    return chunks, position


def chunk_bytes(data: bytes, chunk: Chunk) -> bytes:
    """Return the content of one chunk."""
    raw = data[chunk.offset + 8 : chunk.offset + 8 + chunk.compressed]
    if chunk.scheme == 0:
        return raw
    raw = lz4_frame(raw)
    return ungroup(raw) if chunk.scheme == 2 else raw


def ungroup(data: bytes) -> bytes:
    """Undo byte grouping by four (all first bytes, then all second bytes, ...)."""
    out, position = bytearray(len(data)), 0
    quotient, rest = divmod(len(data), 4)
    for lane in range(4):
        length = quotient + (1 if lane < rest else 0)
        out[lane::4] = data[position : position + length]
        position += length
    return bytes(out)


def lz4_frame(source: bytes) -> bytes:
    """Decode an LZ4 frame (lz4_Frame_format.md)."""
    flags = source[4]
    position = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1
    out = bytearray()
    while True:
        (size,) = struct.unpack_from("<I", source, position)
        position += 4
        if size == 0:
            return bytes(out)
        is_raw, size = size >> 31, size & 0x7FFFFFFF
        block = source[position : position + size]
        if is_raw:
            out += block
        else:
            _lz4_block(block, out)
        position += size + (4 if flags & 16 else 0)


def _lz4_block(source: bytes, out: bytearray) -> None:
    """Decode one LZ4 block onto `out` (lz4_Block_format.md)."""
    position, end = 0, len(source)
    while position < end:
        token = source[position]
        length, position = _length(source, position + 1, token >> 4)
        out += source[position : position + length]
        position += length
        if position >= end:
            return
        offset = source[position] | source[position + 1] << 8
        length, position = _length(source, position + 2, token & 15)
        length += 4
        start = len(out) - offset
        if offset >= length:
            out += out[start : start + length]
        else:
            pattern = bytes(out[start:])
            out += (pattern * (length // offset + 1))[:length]


def _length(source: bytes, position: int, nibble: int) -> tuple[int, int]:
    length = nibble
    if nibble == 15:
        while True:
            byte = source[position]
            position += 1
            length += byte
            if byte != 255:
                break
    return length, position
