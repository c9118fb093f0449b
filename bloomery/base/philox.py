"""Random numbers from a counter: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").

A block of four 32-bit words is a function of a key and a counter, and of nothing else. So a process can compute any
part of a stream without the numbers before it, and the result does not depend on how a stream is divided over processes
or threads. The computation uses only integer arithmetic, so the words are the same on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WORDS = 4
"""Number of 32-bit words in a block."""

_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)
_KEY_STEPS = np.array([[0x9E3779B9], [0xBB67AE85]], dtype=np.uint64)


def philox_words(key: int, counters: npt.NDArray[np.uint64], stream: int = 0) -> npt.NDArray[np.uint64]:
    """Return the blocks of several counters: 32-bit words as uint64, [4, number of counters].

    Args:
        key: 64-bit key. Its low half is the first word of Philox's key.
        counters: low halves of the 128-bit counters, [number of counters].
        stream: high half of all counters, 64 bits. Different streams of a key share no block.
    """
    even = np.empty((2, counters.size), dtype=np.uint64)
    odd = np.empty_like(even)
    # Philox multiplies the words 0 and 2 in each round. Their results are combined with the words 1 and 3.
    even[0], even[1] = counters & _LOW, stream & 0xFFFFFFFF
    odd[0], odd[1] = counters >> _SHIFT, stream >> 32
    keys = np.array([[key & 0xFFFFFFFF], [key >> 32]], dtype=np.uint64)
    products, high = np.empty_like(even), np.empty_like(even)
    for _ in range(_ROUNDS):
        np.multiply(even, _MULTIPLIERS, out=products)
        np.right_shift(products, _SHIFT, out=high)
        # Word 0 comes from word 2's product, and word 2 from word 0's product.
        np.bitwise_xor(high[::-1], odd, out=even)
        np.bitwise_xor(even, keys, out=even)
        np.bitwise_and(products[::-1], _LOW, out=odd)
        keys = (keys + _KEY_STEPS) & _LOW
    return np.stack((even[0], odd[0], even[1], odd[1]))
