"""Compute a reference for a checkpoint that has none, from its pieces and random tokens."""

from __future__ import annotations

import torch

from bloomery.checkpoint.reference import LongSample, Reference
from export.proof.forward_model import read_out
from export.proof.split_model import Pieces, SplitModel

_SHORT, _LONG = (2, 24), (2, 128)
"""Number and length in tokens of the samples whose logits are compared at all rows, and of the longer samples."""
_NAME = "random tokens"


def split_reference(pieces: Pieces, entries: int) -> Reference:
    """Return the logits and summaries that the pieces compute for random tokens. Equal calls use equal tokens.

    Args:
        pieces: the checkpoint's weights on each tensor rank.
        entries: entries of the tokenizer. Other rows of the embedding are not used as tokens.
    """
    generator = torch.Generator().manual_seed(0)
    short, long = (
        torch.randint(entries, (count, min(length, pieces.model.sequence_length)), generator=generator)
        for count, length in (_SHORT, _LONG)
    )
    logits, summaries = read_out(SplitModel(pieces), list(short), list(long), entries)
    samples = (LongSample(_NAME, tokens, summary) for tokens, summary in zip(long, summaries, strict=True))
    return Reference(short, torch.stack(logits), tuple(samples))
