"""Tokenizer and index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Count, NotTruth, Positive, Section, Share

UINT16_BELOW = 65_500
"""Vocabularies below this are stored as uint16 (Megatron's rule, on the unpadded size)."""


def smallest_vocabulary(reserved_tokens: int) -> int:
    """Entries of a tokenizer without a merge: special tokens, reserved ones, bytes."""
    return 4 + reserved_tokens + 256


class TokenizerConfig(Section):
    """Byte-level BPE trained from pre-token counts that the mixture weighs, or an existing tokenizer."""

    existing: str | None = None
    """A tokenizer to use instead of training one: a folder, a `tokenizer.json`, or a Hub repository (`name@revision`);
    null: one is trained."""
    vocabulary_size: Annotated[int, Field(ge=260, le=2**24), NotTruth] = 250_680
    """Entries, special and reserved tokens and the 256 bytes included (BLOOM: 250,680)."""
    reserved_tokens: Count = 200
    """Reserved ids after the four special tokens (BLOOM: 200)."""
    pre_tokenizer: Literal["bloom", "modern"] = "bloom"
    """`bloom`: BLOOM's split; runs of spaces stay one piece. `modern`: words with their marks, digits by three."""
    split_digits: bool = False
    """Every digit is a piece of its own."""
    min_frequency: Positive = 2
    """A pair seen less often (in weighted counts) is not merged."""
    max_token_bytes: Annotated[int, Field(ge=2), NotTruth] = 64
    """Longest token, bytes."""
    max_pieces: Positive = 32_000_000
    """Unique pieces that training holds: of more, the most frequent (in weighted counts)."""


class IndexConfig(Section):
    """Token index: Megatron `.bin/.idx`, samples, shuffle, blend."""

    validation_share: Share = 0.01
    """Share of documents held out for validation, chosen by the hash of their id."""
