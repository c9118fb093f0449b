"""Tokenizer and index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.config.section import Count, NotBool, Positive, Section, Share
from bloomery.config.tokenizer_report import TokenizerReportConfig

UINT16_BELOW = 65_500
"""Vocabularies below this are stored as uint16 (Megatron's rule, on the unpadded size)."""


def smallest_vocabulary(reserved_tokens: int) -> int:
    """Entries of a tokenizer without a merge: special tokens, reserved ones, bytes."""
    return 4 + reserved_tokens + 256


class TokenizerTraining(Section):
    """Byte-level BPE trained from pre-token counts that the mixture weighs, or an existing tokenizer."""

    existing: Annotated[str, Field(min_length=1)] | None = None
    """A tokenizer to use instead of training one: a folder, a `tokenizer.json`, or a Hub repository
    (`owner/name@revision`); null: one is trained."""
    end_of_document: str | None = None
    """Token of the existing tokenizer that ends every document; null: its `eos_token`."""
    vocabulary_size: Annotated[int, Field(ge=260, le=2**24), NotBool] = 250_680
    """Entries, special and reserved tokens and the 256 bytes included (BLOOM: 250,680). Of an existing tokenizer: the
    most that it may have, with which plans are made."""
    reserved_tokens: Count = 200
    """Reserved ids after the four special tokens (BLOOM: 200)."""
    pre_tokenizer: Literal["bloom", "modern"] = "bloom"
    """`bloom`: BLOOM's split; runs of spaces stay one piece. `modern`: words with their marks, digits by three."""
    split_digits: bool = False
    """Every digit is a piece of its own."""
    min_frequency: Positive = 2
    """A pair seen less often (in weighted counts) is not merged."""
    max_token_bytes: Annotated[int, Field(ge=2), NotBool] = 64
    """Longest token, bytes."""
    max_pieces: Positive = 32_000_000
    """Unique pieces that training holds: of more, the most frequent (in weighted counts)."""


class TokenizerConfig(TokenizerTraining):
    """Byte-level BPE trained from pre-token counts that the mixture weighs, or an existing one; and its report."""

    report: TokenizerReportConfig = TokenizerReportConfig()
    """The report and its gate."""


def _some_weight(weights: dict[str, float]) -> dict[str, float]:
    if not any(weights.values()):
        raise ValueError("a weight above 0 for a language or a dataset, or null for those of the mixture")
    return weights


Weights = Annotated[dict[str, Annotated[float, Field(ge=0.0), NotBool]], AfterValidator(_some_weight)]
"""Weights of languages or datasets."""


class BlendStage(Section):
    """A stretch of the training with weights of its own; it ends where the next begins, or with the training."""

    from_sample: Count = 0
    """First training sample of the stage."""
    weights: Weights | None = None
    """Weight per language (`fr`), shared among its datasets as in the mixture, or per dataset (`en/web`, of a language
    that is mixed by source); renormalised, what is not named has none. Null: those of the mixture."""
    spread_to: Positive | None = None
    """Sample to which the stage is laid out; null: its end. A run that was laid out to T and shall have other weights
    from N on keeps its samples before N with `{from_sample: 0, spread_to: T}`, `{from_sample: N, weights: ...}`."""


class IndexConfig(Section):
    """Token index: Megatron `.bin/.idx`, samples, shuffle, blend."""

    validation_share: Share = 0.01
    """Share of documents held out for validation, chosen by the hash of their id."""
    shards_per_file: Positive = 1
    """Clean shards of a source that one `.bin/.idx` pair holds. Other pairs are other files to a training: it would
    begin anew."""
    blend: list[BlendStage] = []
    """Stages of the training by consumed samples, each with weights of its own; empty: the mixture's all along."""
    order: Literal["epochs", "megatron"] = "epochs"
    """`epochs`: each epoch of a dataset is shuffled by itself, and a longer training only appends. `megatron`: as
    Megatron-core's GPTDataset orders it from the same seed (below 2^32), to continue or compare with its trainings."""
