"""Decide by torch operations which elements dropout keeps. The decisions are those of the kernel in ``csrc/dropout``.

GPUs and compiled blocks use these operations. torch.compile fuses them with the operations around them, so that no
random number is stored.
"""

from __future__ import annotations

import torch

_HALVES = 8
"""Number of 16-bit random numbers in a block. Element e uses half e % 8 of block e // 8."""

_ROUNDS = 10
_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def keep_mask(numbers: torch.Tensor, first: int, count: int, threshold: int) -> torch.Tensor:
    """Return which elements are kept, bool [rows, count].

    Row r has the elements first to first + count - 1 of a sample.

    Args:
        numbers: key and stream of each row, int64 [rows, 2].
        first: number of the first element.
        count: number of elements in a row.
        threshold: an element is dropped if its 16-bit random number is below this value.
    """
    element = torch.arange(first, first + count, device=numbers.device)
    words = _philox(numbers[:, 0:1], numbers[:, 1:2], element[None] // _HALVES)
    half = element % _HALVES
    word = words[0]
    for number in range(1, 4):
        word = torch.where(half // 2 == number, words[number], word)
    return (word >> (half % 2 * 16)) & 0xFFFF >= threshold


def _philox(key: torch.Tensor, stream: torch.Tensor, block: torch.Tensor) -> list[torch.Tensor]:
    """Return the four words of Philox4x32-10 for the counters (block, stream), as int64."""
    # A product of two 32-bit words may exceed int64. Its bits are right, and the mask removes the sign after the shift.
    words = [block & _LOW, (block >> 32) & _LOW, stream & _LOW, (stream >> 32) & _LOW]
    keys = [key & _LOW, (key >> 32) & _LOW]
    for _ in range(_ROUNDS):
        even, odd = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            ((odd >> 32) & _LOW) ^ words[1] ^ keys[0],
            odd & _LOW,
            ((even >> 32) & _LOW) ^ words[3] ^ keys[1],
            even & _LOW,
        ]
        keys = [(each + step) & _LOW for each, step in zip(keys, _KEY_STEPS, strict=True)]
    return words
