"""Estimate how many bytes of text a token has."""

from __future__ import annotations

import math


def bytes_per_token(vocabulary: int) -> float:
    """Return the estimated number of bytes of text per token.

    The estimate is linear in the logarithm of the vocabulary: one byte with 256 entries, and 4.7 bytes with the 250,680
    entries of BLOOM's tokenizer (its mean over BLOOM's corpus ROOTS).
    """
    return 1 + 3.7 * (math.log2(vocabulary) - 8) / (math.log2(250_680) - 8)
