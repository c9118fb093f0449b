"""Bytes that kernels over text must bear: random ones, cut and spoilt characters, repeated and arbitrary ones."""

from __future__ import annotations

import random


def any_character(generator: random.Random) -> str:
    """A character of ASCII, the first plane or any other."""
    return chr(
        generator.choice(
            [generator.randrange(0x80), generator.randrange(0xD800), generator.randrange(0xE000, 0x110000)]
        )
    )


def cut_and_random(generator: random.Random, text: bytes) -> list[bytes]:
    """Every beginning and end of `text`, random bytes, and whole characters of which some bytes are spoilt."""
    blobs = [b"", b"\0", b"\n", b"\xff", b" \n \t", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a" * 11, b"1" * 11]
    blobs += [text[:n] for n in range(len(text))]
    blobs += [text[n:] for n in range(len(text))]
    blobs += [generator.randbytes(generator.randrange(200)) for _ in range(300)]
    # Random bytes are malformed nearly everywhere; whole characters with some bytes spoilt go further.
    for _ in range(150):
        spoilt = bytearray("".join(any_character(generator) for _ in range(40)).encode())
        for _ in range(generator.randrange(4)):
            spoilt[generator.randrange(len(spoilt))] = generator.randrange(256)
        blobs.append(bytes(spoilt))
    return blobs
