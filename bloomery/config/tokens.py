"""Configuration of the tokenizer and of the token index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.config.section import Count, NotBool, Positive, Section, Share
from bloomery.config.tokenizer_report import TokenizerReportConfig

UINT16_BELOW = 65_500
"""Tokens are stored as uint16 if the unpadded vocabulary is smaller than this (Megatron's rule)."""


def smallest_vocabulary(reserved_tokens: int) -> int:
    """Return the size of a vocabulary without any merge: special tokens, reserved tokens and the 256 bytes."""
    return 4 + reserved_tokens + 256


class TokenizerTraining(Section):
    """A byte-level BPE tokenizer that is trained on weighted counts of pre-tokens, or an existing tokenizer."""

    existing: Annotated[str, Field(min_length=1)] | None = None
    """Tokenizer to use instead of training one: a folder, a `tokenizer.json`, or a Hub repository
    (`owner/name@revision`). Default (null): a tokenizer is trained."""
    end_of_document: str | None = None
    """Token with which every document ends. This key is only allowed with `existing`, and the tokenizer that `existing`
    names must contain the token. Default (null): the `eos_token` of that tokenizer."""
    vocabulary_size: Annotated[int, Field(ge=260, le=2**24), NotBool] = 250_680
    """Number of entries of the vocabulary, including special tokens, reserved tokens and the 256 bytes (BLOOM:
    250,680). With `existing`: the maximum number of entries of that tokenizer; plans assume this maximum."""
    reserved_tokens: Count = 200
    """Number of token ids that are reserved for later use, after the four special tokens (BLOOM: 200)."""
    pre_tokenizer: Literal["bloom", "modern"] = "bloom"
    """Rule that splits text into pieces (pre-tokens). No token crosses the border of a piece. `bloom`: BLOOM's rule,
    which keeps runs of spaces in one piece. `modern`: words with their combining marks, and digits in groups of up to
    three."""
    split_digits: bool = False
    """If true, every digit is a piece (pre-token) of its own."""
    min_frequency: Positive = 2
    """Minimum weighted count of a pair of neighbouring tokens in the corpus. Rarer pairs are not merged into a new
    token."""
    max_token_bytes: Annotated[int, Field(ge=2), NotBool] = 64
    """Maximum length of a token in bytes."""
    max_pieces: Positive = 32_000_000
    """Maximum number of different pieces (pre-tokens) that the training of the tokenizer holds in memory. If there are
    more, only the pieces with the highest weighted counts are used."""


class TokenizerConfig(TokenizerTraining):
    """Tokenizer of the run and its report. The tokenizer is an existing one, or a byte-level BPE tokenizer that is
    trained on counts of pre-tokens, which the mixture weights."""

    report: TokenizerReportConfig = TokenizerReportConfig()
    """Settings of the tokenizer's report, and of the gate that the tokenizer must pass."""


def _some_weight(weights: dict[str, float]) -> dict[str, float]:
    if not any(weights.values()):
        raise ValueError("a weight above 0 for a language or a dataset, or null for the weights of the mixture")
    return weights


Weights = Annotated[dict[str, Annotated[float, Field(ge=0.0), NotBool]], AfterValidator(_some_weight)]
"""Weight per language or dataset."""


class BlendStage(Section):
    """A stage of the blend: a range of the training samples with weights of its own. A stage ends where the next stage
    begins. The last stage ends with the training."""

    from_sample: Count = 0
    """Number of the first training sample that this stage of the blend contains, counted from 0."""
    weights: Annotated[Weights | None, Field(examples=[{"fr": 0.6, "en/web": 0.4}])] = None
    """Weights by language (`fr`) or by dataset (`en/web`, for a language that is mixed by source). The weight of a
    language is divided among its datasets in the same proportions as in the mixture. The weights are normalised;
    languages and datasets without a weight are not read. Default (null): the mixture's weights."""
    spread_to: Positive | None = None
    """Number of the training sample up to which this stage's weights were planned to apply, if that is later than the
    end of the stage. Default (null): the end of the stage. Set this key to change the weights of later samples while
    earlier samples stay the same. For a run that was planned up to sample T and gets new weights from sample N on, use
    two stages: `{from_sample: 0, spread_to: T}` and `{from_sample: N, weights: ...}`."""


class IndexConfig(Section):
    """Token index: Megatron `.bin/.idx` files, samples, shuffle and blend."""

    validation_share: Share = 0.01
    """Share of the documents that is held out for validation. The documents are selected by the hash of their ids."""
    shards_per_file: Positive = 1
    """Number of clean shards (files of cleaned documents) of a source that are written to one pair of token files
    (`.bin` and `.idx`). If you change this number, the token files change, and a training that has already started
    cannot continue with them."""
    blend: Annotated[
        list[BlendStage],
        Field(examples=[[{"from_sample": 0}, {"from_sample": 90000, "weights": {"fr": 0.6, "sw": 0.4}}]]),
    ] = []
    """Stages of the blend: ranges of the training samples, each with weights of its own. Default (empty): the mixture's
    weights apply to the whole training."""
    order: Literal["epochs", "megatron"] = "epochs"
    """Order of the training documents and samples. `epochs`: each epoch of a dataset is shuffled separately, so a
    longer training only appends samples. `megatron`: the order of Megatron-core's GPTDataset for the same `seed`, which
    must be below 2^32. Use it to continue a Megatron training or to compare with one."""


def token_bytes(vocabulary_size: int) -> int:
    """Return the bytes of a token in a token file: 2 (uint16) or 4 (int32)."""
    return 2 if vocabulary_size < UINT16_BELOW else 4
