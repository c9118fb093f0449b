"""Compute the number of training samples for a length in epochs."""

from __future__ import annotations


def samples_of_epochs(epochs: float, tokens: int, sequence_length: int) -> int:
    """Return the number of samples that read `tokens` tokens `epochs` times.

    A sample holds `sequence_length` tokens and the token after them, which it shares with the next sample.
    """
    return max(0, int((epochs * tokens - 1) // sequence_length))
