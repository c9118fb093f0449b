"""Compiled byte-pair encoding (``csrc/bpe``): pieces of text are counted, trained on, and encoded."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

class Trainer:
    """Byte-pair encoding learnt from counted pieces; nothing is merged across pieces. 85 bytes a piece of 9 bytes.

    Its methods release the GIL; `train` heeds Ctrl-C.
    """

    def __init__(self, symbol_order: NDArray[np.uint8], min_frequency: int, max_token_bytes: int) -> None:
        """Byte b has token id ``symbol_order[b]``, a permutation of 0..255. A pair that occurs less than
        ``max(min_frequency, 1)`` times, or whose token would be longer than ``max_token_bytes``, is never merged.
        Raises ``ValueError`` for parameters out of range."""

    def add(self, pieces: Buffer, offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Piece i, ``pieces[offsets[i]:offsets[i + 1]]``, occurs ``counts[i]`` times. The pieces are copied; one that
        comes again adds to what came before, and their order does not matter.

        Raises ``ValueError`` for negative counts, for counts whose sum over all pairs of bytes overflows 64 bits, for
        bad offsets, and for more than 2^32 bytes, END of each piece and its count (three cells of four bytes) included.
        """

    def train(self, merges: int, progress: Callable[[int], None] | None = None) -> NDArray[np.int32]:
        """The merges learnt, shape (m, 2) with m <= ``merges``: merge k joins two token ids into token 256 + k.

        Each is the pair that occurs most often, the smallest (left id, right id) among equals, as in Hugging Face
        ``tokenizers``. All tokens differ as byte strings. ``progress`` is told the number of merges now and then; what
        it raises ends the training. The pieces are used up: to be called once. Raises ``ValueError``.
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
    """`Trainer` for pieces that are all in memory: its three calls in one."""

MAX_PIECE_BYTES: int
"""A longer piece counts as several, cut between characters."""

def piece_ends(text: Buffer, preset: str, split_digits: bool) -> NDArray[np.int64]:
    """Where each pre-token of a UTF-8 text ends, in bytes; they lie end to end. Malformed bytes count as punctuation.

    Raises ``ValueError`` for an unknown preset.
    """

class Counter:
    """How often each pre-token occurs in each language; about 50 bytes a unique one. One thread at a time."""

    def __init__(self, preset: str, split_digits: bool) -> None: ...
    def add(self, data: Buffer, offsets: NDArray[np.int64], languages: NDArray[np.int64]) -> None:
        """Count the pre-tokens of the texts ``data[offsets[i]:offsets[i + 1]]``, text i being of ``languages[i]``.

        Releases the GIL; heeds Ctrl-C. Raises ``ValueError`` for bad offsets, for languages that are not numbers below
        65,536, and for one that is being drained.
        """

    def drain(self, language: int, pieces: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """The next pieces of a language, at most so many, in the order of their bytes: bytes, offsets, counts.

        None are left when none are returned: then the language counts from nothing again.
        """

    def totals(self) -> NDArray[np.int64]:
        """Shape (languages, 3): pre-tokens, their bytes, and how many were longer than ``MAX_PIECE_BYTES``.

        Of all texts ever added, drained or not.
        """

    @property
    def memory_bytes(self) -> int:
        """What the pieces take; growing takes at most half as much again for a moment."""

class Encoder:
    """Text to token ids: cut by a pre-tokenizer's preset, then merged piece by piece. Remembers the pieces it has seen
    (32 MiB, forgotten when full). May be used by several threads, which then wait for each other."""

    def __init__(self, bytes: NDArray[np.int32], merges: NDArray[np.int32], preset: str, split_digits: bool) -> None:
        """``bytes``, shape (256,): token id of each byte. ``merges``, shape (m, 3), in order of rank: a left id and a
        right id that become a third. Raises ``ValueError`` for negative ids, a pair that stands there twice, or an
        unknown preset."""

    def encode(self, data: Buffer, offsets: NDArray[np.int64], end: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The tokens of all texts, laid end to end, and the number of each text's, shape (n,).

        Text i is ``data[offsets[i]:offsets[i + 1]]``, any bytes. In each piece the pair of lowest rank is merged, the
        leftmost among equals, until none is left. ``end``: a token that is put behind each text and counted; -1: none.
        Releases the GIL; heeds Ctrl-C. Raises ``ValueError`` for bad offsets.
        """
