"""Compiled BPE trainer (``csrc/bpe``): counted pieces of text in, merges out. Releases the GIL; heeds Ctrl-C."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def train(
    pieces: Buffer,
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbol_order: NDArray[np.uint8],
    merges: int,
    min_frequency: int,
    max_token_bytes: int,
) -> NDArray[np.int32]:
    """The merges learnt, shape (m, 2) with m <= ``merges``: merge k joins two token ids into token 256 + k.

    Piece i, ``pieces[offsets[i]:offsets[i + 1]]``, occurs ``counts[i]`` times; nothing is merged across pieces. Byte b
    has token id ``symbol_order[b]``, a permutation of 0..255. Each merge is the pair that occurs most often, the
    smallest (left id, right id) among equals, as in Hugging Face ``tokenizers``; pairs whose token would be longer than
    ``max_token_bytes`` are passed over, and training stops when the best pair occurs less than ``max(min_frequency,
    1)`` times. All tokens differ as byte strings. Raises ``ValueError`` for counts that are negative or whose sum over
    all pairs of bytes overflows 64 bits, for bad offsets, and for parameters out of range.
    """
