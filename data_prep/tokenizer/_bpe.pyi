"""Compiled byte-pair encoding (``csrc/bpe``): count pieces of text, train BPE on the counts, and encode text."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

class Trainer:
    """Train byte-pair encoding on counted pieces. Pairs are never merged across pieces.

    A piece of 9 bytes takes 85 bytes of memory. The methods release the GIL. Ctrl-C interrupts `train`.
    """

    def __init__(self, symbol_order: NDArray[np.uint8], min_frequency: int, max_token_bytes: int) -> None:
        """Set the parameters of the training.

        Byte b has the token id ``symbol_order[b]``; ``symbol_order`` is a permutation of 0..255. A pair is never merged
        if it occurs fewer than ``max(min_frequency, 1)`` times, or if its token would be longer than
        ``max_token_bytes``. Raises ``ValueError`` for parameters out of range.
        """

    def add(self, pieces: Buffer, offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add pieces: piece i, ``pieces[offsets[i]:offsets[i + 1]]``, occurs ``counts[i]`` times.

        The pieces are copied. A piece may be added several times; its counts are then summed. The order of pieces does
        not matter.

        Raises ``ValueError`` for negative counts, for bad offsets, and for counts whose sum over all pairs of bytes
        overflows 64 bits. Also raises ``ValueError`` if all pieces need more than 2^32 cells of four bytes. A piece
        takes one cell per byte and three more cells for its count and its end mark.
        """

    def train(self, merges: int, progress: Callable[[int], None] | None = None) -> NDArray[np.int32]:
        """Return the trained merges, shape (m, 2) with m <= ``merges``. Merge k joins two token ids into token 256 + k.

        Each merge is the most frequent pair; among equally frequent pairs, it is the smallest (left id, right id), as
        in Hugging Face ``tokenizers``. All tokens differ as byte strings. ``progress`` is called repeatedly with the
        number of merges so far; an exception that it raises ends the training. Call this once, because training
        consumes the pieces. A second call raises ``ValueError``.
        """

def train(
    pieces: Buffer,
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbol_order: NDArray[np.uint8],
    merges: int,
    min_frequency: int,
    max_token_bytes: int,
) -> NDArray[np.int32]:
    """Create a `Trainer`, add all pieces and train, in one call."""

MAX_PIECE_BYTES: int
"""Greatest length of a counted piece, in bytes. A longer piece is split between characters and counted as several."""

def piece_ends(text: Buffer, preset: str, split_digits: bool) -> NDArray[np.int64]:
    """Return the end offset of each pre-token of a UTF-8 text, in bytes. Each pre-token begins where the last one ends.

    Malformed bytes are treated as punctuation. Raises ``ValueError`` for an unknown preset.
    """

class Counter:
    """Count how often each pre-token occurs in each language. A unique pre-token takes about 50 bytes of memory.

    Only one thread may use a counter at a time.
    """

    def __init__(self, preset: str, split_digits: bool) -> None: ...
    def add(self, data: Buffer, offsets: NDArray[np.int64], languages: NDArray[np.int64]) -> None:
        """Count the pre-tokens of the texts ``data[offsets[i]:offsets[i + 1]]``, where text i has ``languages[i]``.

        Releases the GIL. Ctrl-C interrupts the call. Raises ``ValueError`` for bad offsets, for language numbers
        outside 0..65,535, and for a language that is being drained.
        """

    def drain(self, language: int, pieces: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """Remove and return the next pieces of a language in byte order, at most ``pieces``: bytes, offsets, counts.

        An empty result means that the language has no pieces left. Its counting can then start again from 0.
        """

    def totals(self) -> NDArray[np.int64]:
        """Return the totals of each language, shape (languages, 3).

        The columns are the number of pre-tokens, their bytes, and the number of pre-tokens longer than
        ``MAX_PIECE_BYTES``. Drained pre-tokens are included.
        """

    @property
    def memory_bytes(self) -> int:
        """Memory of the counted pieces, in bytes. While it grows, up to half as much memory is needed in addition."""

class Encoder:
    """Encode text to token ids: split it with a pre-tokenizer preset, then merge pairs in each piece.

    A cache of 32 MiB holds the tokens of recent pieces; it is emptied when it is full. Several threads may use one
    encoder, but only one encodes at a time.
    """

    def __init__(self, bytes: NDArray[np.int32], merges: NDArray[np.int32], preset: str, split_digits: bool) -> None:
        """Set the vocabulary and the pre-tokenizer.

        ``bytes``, shape (256,), holds the token id of each byte. ``merges``, shape (m, 3), holds left id, right id and
        merged id, in order of rank. Raises ``ValueError`` for negative ids, a duplicate pair, or an unknown preset.
        """

    def encode(self, data: Buffer, offsets: NDArray[np.int64], end: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the concatenated tokens of all texts, and the number of tokens of each text, shape (n,).

        Text i is ``data[offsets[i]:offsets[i + 1]]`` and may hold any bytes. In each piece, the pair of lowest rank
        (the leftmost of equal pairs) is merged until no pair can be merged. ``end`` is a token id that is appended to
        each text and counted, or -1 for none. Releases the GIL. Ctrl-C interrupts the call. Raises ``ValueError`` for
        bad offsets.
        """
