"""Test the counter-based generator with the published known answers."""

from __future__ import annotations

import numpy as np
import pytest

from bloomery.base.philox import philox_words

# The lines "philox4x32 10" of tests/kat_vectors in Random123 1.14.0: counter, key, result.
KNOWN_ANSWERS = [
    "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
    "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
]


@pytest.mark.parametrize("line", KNOWN_ANSWERS)
def test_known_answers_of_random123(line: str) -> None:
    words = [int(word, 16) for word in line.split()]
    counter, stream, key = (words[i] | words[i + 1] << 32 for i in (0, 2, 4))
    # Compute the block together with other blocks, because a block must not depend on its neighbours.
    counters = np.array([7, counter, 2**40], dtype=np.uint64)
    found = philox_words(key, counters, stream)
    assert found[:, 1].tolist() == words[6:]
    assert found.shape == (4, 3)
