"""Compute the factors of dropout from their definition, with numpy's Philox of `bloomery.base.philox`."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

from bloomery.base.philox import philox_words

EMBEDDING, ATTENTION, AFTER_ATTENTION, AFTER_FEED_FORWARD = range(4)


def random_numbers(key: int, stream: int, first: int, count: int) -> npt.NDArray[np.int64]:
    """Return the 16-bit random numbers of the elements first to first + count - 1."""
    elements = np.arange(first, first + count, dtype=np.int64)
    block, half = np.divmod(elements, 8)
    words = philox_words(key % 2**64, block.astype(np.uint64), stream)
    chosen = words[half // 2, np.arange(count)].astype(np.int64)
    return chosen >> 16 * (half % 2) & 0xFFFF


def key_of(seed: int, iteration: int) -> int:
    """Return the key of an iteration."""
    digest = hashlib.blake2b(f"dropout {seed} {iteration}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def factors(
    seed: int, iteration: int, sample: int, layer: int, place: int, shape: tuple[int, ...], probability: float
) -> npt.NDArray[np.float64]:
    """Return the factor of each element of a sample's activation: 0, or 1 / (1 - probability)."""
    threshold = round(probability * 65536)
    stream = sample + (8 * layer + place) * 2**44
    numbers = random_numbers(key_of(seed, iteration), stream, 0, math.prod(shape))
    return np.where(numbers < threshold, 0.0, 65536 / (65536 - threshold)).reshape(shape)
