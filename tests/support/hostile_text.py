"""Make bytes that text kernels must handle: random bytes, cut characters, and characters with damaged bytes."""

from __future__ import annotations

import random


def any_character(generator: random.Random) -> str:
    """Return a character of ASCII, of the first plane, or of any plane."""
    return chr(
        generator.choice(
            [generator.randrange(0x80), generator.randrange(0xD800), generator.randrange(0xE000, 0x110000)]
        )
    )


def cut_and_random(generator: random.Random, text: bytes) -> list[bytes]:
    """Return every prefix and suffix of `text`, random bytes, and characters with damaged bytes."""
    blobs = [b"", b"\0", b"\n", b"\xff", b" \n \t", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a" * 11, b"1" * 11]
    blobs += [text[:n] for n in range(len(text))]
    blobs += [text[n:] for n in range(len(text))]
    blobs += [generator.randbytes(generator.randrange(200)) for _ in range(300)]
    # Random bytes are malformed almost everywhere. Characters with a few damaged bytes reach more code.
    for _ in range(150):
        spoilt = bytearray("".join(any_character(generator) for _ in range(40)).encode())
        for _ in range(generator.randrange(4)):
            spoilt[generator.randrange(len(spoilt))] = generator.randrange(256)
        blobs.append(bytes(spoilt))
    return blobs
