"""Cleaning: ingest, measure, judge, deduplicate, redact, mix."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.base.units import Bytes
from bloomery.config.section import Contradiction, Integer, NotTruth, Number, Positive, Section, Share, report


class IngestConfig(Section):
    """Reading sources into shards."""

    shard_bytes: Annotated[Bytes, Field(ge=1024)] = 256 * 1024 * 1024
    """Input bytes that one shard (one job) takes: small files are grouped up to it."""
    max_document_bytes: Annotated[Bytes, Field(ge=1024)] = 8 * 1024 * 1024
    """A longer line or document is quarantined."""


class LanguageIdConfig(Section):
    """Language identification (CLD2, offline) with accept sets."""

    min_share: Share = 0.6
    """Share of a document's bytes that the label's accept set must reach."""
    min_bytes: Integer = 120
    """Shorter documents are not judged by language: detectors guess there."""


class Thresholds(Section):
    """Limits on the measures of a document; null switches a rule off. Names are the measures' names."""

    min_characters: Number | None = None
    """Least number of characters."""
    min_words: Number | None = None
    """Least number of words (characters, for scripts without spaces)."""
    max_words: Number | None = None
    """Greatest number of words."""
    min_mean_word_length: Number | None = None
    """Least mean word length, characters (Gopher)."""
    max_mean_word_length: Number | None = None
    """Greatest mean word length, characters (Gopher)."""
    max_character_repetition_ratio: Number | None = None
    """Greatest repetition of character 10-grams (ROOTS)."""
    max_word_repetition_ratio: Number | None = None
    """Greatest repetition of word 5-grams (ROOTS)."""
    max_special_ratio: Number | None = None
    """Greatest share of punctuation, symbols, digits and control characters; letters and marks never count."""
    max_digit_ratio: Number | None = None
    """Greatest share of digits."""
    min_alphabetic_word_ratio: Number | None = None
    """Least share of words with a letter (Gopher)."""
    max_short_line_ratio: Number | None = None
    """Greatest share of lines of at most 30 characters (FineWeb)."""
    max_duplicate_line_ratio: Number | None = None
    """Greatest share of characters in repeated lines (FineWeb, Gopher)."""
    min_terminal_punctuation_ratio: Number | None = None
    """Least share of lines that end a sentence (FineWeb)."""
    max_newline_ratio: Number | None = None
    """Greatest number of line ends per word (FineWeb)."""
    max_bullet_ratio: Number | None = None
    """Greatest share of lines that start with a bullet (Gopher)."""
    max_replacement_ratio: Number | None = None
    """Greatest share of replacement characters and mojibake pairs."""
    max_duplicate_line_fraction: Number | None = None
    """Greatest share of lines that repeat an earlier one (Gopher)."""
    max_duplicate_paragraph_fraction: Number | None = None
    """Greatest share of paragraphs that repeat an earlier one (Gopher)."""
    max_duplicate_paragraph_ratio: Number | None = None
    """Greatest share of characters in repeated paragraphs (Gopher)."""
    max_top_2gram_ratio: Number | None = None
    """Greatest share of characters in the most frequent pair of words (Gopher)."""
    max_top_3gram_ratio: Number | None = None
    """Greatest share of characters in the most frequent three words (Gopher)."""
    max_top_4gram_ratio: Number | None = None
    """Greatest share of characters in the most frequent four words (Gopher)."""
    max_duplicate_5gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of five words (Gopher)."""
    max_duplicate_6gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of six words (Gopher)."""
    max_duplicate_7gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of seven words (Gopher)."""
    max_duplicate_8gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of eight words (Gopher)."""
    max_duplicate_9gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of nine words (Gopher)."""
    max_duplicate_10gram_ratio: Number | None = None
    """Greatest share of characters in repeated runs of ten words (Gopher)."""
    max_hash_ratio: Number | None = None
    """Greatest number of `#` per word (Gopher)."""
    max_ellipsis_ratio: Number | None = None
    """Greatest number of ellipses per word (Gopher)."""
    max_ellipsis_line_ratio: Number | None = None
    """Greatest share of lines that end in an ellipsis (Gopher)."""


class JudgeConfig(Section):
    """Thresholds: a preset of numbers per language, then what this run changes."""

    preset: Literal["bloomery", "roots", "fineweb2", "gopher", "none"] = "bloomery"
    """`bloomery`: `config/languages/<code>.toml`; `roots`, `fineweb2`, `gopher`: the published numbers in
    `config/thresholds/` (`code` keeps its own profile); `none`: only what `thresholds` says."""
    thresholds: dict[str, Thresholds] = {}
    """Changes per language code; `default` applies to every language but `code`."""


class NearDedupConfig(Section):
    """Near duplicates by MinHash-LSH, confirmed by the Jaccard similarity of shingles."""

    enabled: bool = True
    """Look for near duplicates."""
    word_ngram: Positive = 5
    """Words in a shingle."""
    character_ngram: Positive = 5
    """Characters in a shingle, for scripts without spaces."""
    bands: Positive = 14
    """LSH bands (14 x 8: FineWeb's choice)."""
    rows: Positive = 8
    """MinHash values in a band."""
    min_jaccard: Share = 0.7
    """Candidates with a lower exact similarity are not duplicates."""


class DedupConfig(Section):
    """Duplicates, exact and near, over all shards and sources."""

    exact: bool = True
    """Remove documents with the same text but for whitespace."""
    near: NearDedupConfig = NearDedupConfig()
    """Near duplicates."""
    partitions: Annotated[int, Field(gt=0, le=65536), NotTruth] = 1
    """Hash partitions of the candidate search: one job each; memory of a job is that of the corpus' keys over it."""


PiiKind = Literal["email", "ip", "phone", "iban", "card", "key", "national_id", "handle"]


class PiiConfig(Section):
    """Personal data replaced by placeholders."""

    kinds: list[PiiKind] = ["email", "ip", "phone", "iban", "card", "key", "national_id"]
    """What is replaced: e-mail addresses, public IP addresses, telephone numbers, bank accounts, payment cards, keys
    and tokens, national identity numbers with a check digit. `handle` (`@name`) is off: such a name was chosen for the
    public, often it is what a text is about, and nothing about it can be verified."""


class DecontaminateConfig(Section):
    """Documents that share an n-gram with a text of an evaluation are removed."""

    paths: list[str] = []
    """Evaluation texts: `.jsonl` (`.gz`, `.zst`) or `.parquet` files or patterns; empty: no decontamination."""
    text_fields: Annotated[list[str], Field(min_length=1)] = ["text"]
    """Fields whose text is looked for; one of them at least must be there."""
    id_field: str | None = None
    """Field that names an item; null: file and line do."""
    word_ngram: Positive = 13
    """Words of an n-gram (13: GPT-3's)."""
    character_ngram: Positive = 50
    """Characters of an n-gram, for scripts without spaces."""
    min_hits: Positive = 1
    """Different n-grams that a document must share with the evaluation texts to be removed."""


class MixtureConfig(Section):
    """How much of each language the tokenizer and the training see."""

    alpha: Annotated[float, Field(gt=0.0, le=1.0), NotTruth] = 0.3
    """Weight of a language is proportional to (its bytes) ** alpha; 1: as it is, small: more even."""
    weights: dict[str, Annotated[float, Field(ge=0.0), NotTruth]] = {}
    """Explicit relative weights per language, instead of bytes ** alpha; 0 leaves the language out."""


class CorpusConfig(Section):
    """Sources become a clean corpus."""

    ingest: IngestConfig = IngestConfig()
    """Reading."""
    language_id: LanguageIdConfig = LanguageIdConfig()
    """Language identification."""
    judge: JudgeConfig = JudgeConfig()
    """Thresholds."""
    dedup: DedupConfig = DedupConfig()
    """Deduplication."""
    decontaminate: DecontaminateConfig = DecontaminateConfig()
    """Removing evaluation texts."""
    pii: PiiConfig = PiiConfig()
    """Redaction."""
    keep_removed_text: bool = False
    """Whether `corpus/removed/` holds the text of the removed documents too, personal data replaced."""
    mixture: MixtureConfig = MixtureConfig()
    """Mixture of languages."""

    @model_validator(mode="after")
    def _document_fits_shard(self, info: ValidationInfo) -> CorpusConfig:
        if self.ingest.max_document_bytes > self.ingest.shard_bytes:
            message = (
                f"corpus: ingest.max_document_bytes ({self.ingest.max_document_bytes}) must not exceed "
                f"ingest.shard_bytes ({self.ingest.shard_bytes})"
            )
            keys = ("corpus.ingest.max_document_bytes", "corpus.ingest.shard_bytes")
            report([Contradiction(message, keys)], info)
        return self
