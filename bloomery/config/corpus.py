"""Cleaning stages: ingest, measure, judge, deduplicate, redact and mix."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.base.units import Bytes
from bloomery.config.section import Contradiction, Integer, NotBool, Number, Positive, Section, Share, report
from bloomery.config.words import WordLists


class IngestConfig(Section):
    """How sources are read into shards."""

    shard_bytes: Annotated[Bytes, Field(ge=1024)] = 256 * 1024 * 1024
    """Target size of a shard in bytes of input. One job reads one shard. Small files are grouped up to this size, and a
    larger file is cut into pieces where its kind allows it."""
    max_document_bytes: Annotated[Bytes, Field(ge=1024)] = 8 * 1024 * 1024
    """Maximum size of a document in bytes. A longer line or document is quarantined as a bad row. Must not exceed
    `shard_bytes`."""


class LanguageIdConfig(Section):
    """Offline language identification: CLD2, and an n-gram model for languages that CLD2 lacks."""

    min_share: Share = 0.6
    """Minimum share of a document's bytes that must be detected as its labelled language or as a code that the
    language's profile accepts."""
    min_bytes: Integer = 120
    """Documents shorter than this many bytes skip the language check, because detectors are unreliable on short
    text."""
    fallback_model: str | None = None
    """Path of an n-gram model (made by `bloomery corpus train-langid`) for languages that the detector lacks. Default
    (null): the shipped model for Bambara and Fon."""
    fasttext_model: str | None = None
    """Path of a fastText language classifier (`.bin`, `.ftz`) that replaces CLD2. It needs the extra `fasttext`.
    Default (null): CLD2."""


class Thresholds(Section):
    """Limits on the measures of a document. Each limit is named after its measure. null: no limit."""

    min_characters: Number | None = None
    """Minimum number of characters."""
    min_words: Number | None = None
    """Minimum number of words (characters in scripts without spaces)."""
    max_words: Number | None = None
    """Maximum number of words (characters in scripts without spaces)."""
    min_mean_word_length: Number | None = None
    """Minimum mean word length in characters (Gopher)."""
    max_mean_word_length: Number | None = None
    """Maximum mean word length in characters (Gopher)."""
    max_character_repetition_ratio: Number | None = None
    """Maximum share of repeated character 10-grams (ROOTS)."""
    max_word_repetition_ratio: Number | None = None
    """Maximum share of repeated word 5-grams (ROOTS)."""
    max_special_ratio: Number | None = None
    """Maximum share of punctuation, symbols, digits and control characters. Letters and marks never count."""
    max_digit_ratio: Number | None = None
    """Maximum share of digits among the characters."""
    min_alphabetic_word_ratio: Number | None = None
    """Minimum share of words that contain a letter (Gopher)."""
    max_short_line_ratio: Number | None = None
    """Maximum share of lines of at most 30 characters (FineWeb)."""
    max_duplicate_line_ratio: Number | None = None
    """Maximum share of characters in repeated lines (FineWeb, Gopher)."""
    min_terminal_punctuation_ratio: Number | None = None
    """Minimum share of lines that end with a sentence mark (FineWeb)."""
    max_newline_ratio: Number | None = None
    """Maximum number of line breaks per word (FineWeb)."""
    max_bullet_ratio: Number | None = None
    """Maximum share of lines that start with a bullet (Gopher)."""
    max_replacement_ratio: Number | None = None
    """Maximum share of replacement characters (U+FFFD) and mojibake pairs."""
    max_duplicate_line_fraction: Number | None = None
    """Maximum share of lines that repeat an earlier line (Gopher)."""
    max_duplicate_paragraph_fraction: Number | None = None
    """Maximum share of paragraphs that repeat an earlier paragraph (Gopher)."""
    max_duplicate_paragraph_ratio: Number | None = None
    """Maximum share of characters in repeated paragraphs (Gopher)."""
    max_top_2gram_ratio: Number | None = None
    """Maximum share of characters in the most frequent word 2-gram (Gopher)."""
    max_top_3gram_ratio: Number | None = None
    """Maximum share of characters in the most frequent word 3-gram (Gopher)."""
    max_top_4gram_ratio: Number | None = None
    """Maximum share of characters in the most frequent word 4-gram (Gopher)."""
    max_duplicate_5gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 5-grams (Gopher)."""
    max_duplicate_6gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 6-grams (Gopher)."""
    max_duplicate_7gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 7-grams (Gopher)."""
    max_duplicate_8gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 8-grams (Gopher)."""
    max_duplicate_9gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 9-grams (Gopher)."""
    max_duplicate_10gram_ratio: Number | None = None
    """Maximum share of characters in repeated word 10-grams (Gopher)."""
    max_hash_ratio: Number | None = None
    """Maximum number of `#` per word (Gopher)."""
    max_ellipsis_ratio: Number | None = None
    """Maximum number of ellipses per word (Gopher)."""
    max_ellipsis_line_ratio: Number | None = None
    """Maximum share of lines that end with an ellipsis (Gopher)."""
    max_few_word_line_ratio: Number | None = None
    """Maximum share of lines with fewer than three words (C4)."""
    max_curly_brackets: Number | None = None
    """Maximum number of curly brackets (C4: 0, because prose has none)."""
    min_script_ratio: Number | None = None
    """Minimum share of letters in the language's scripts (`scripts` of its profile)."""
    min_stop_word_ratio: Number | None = None
    """Minimum share of stop words (ROOTS). Prose contains many function words; lists and menus contain few."""
    max_flagged_word_ratio: Number | None = None
    """Maximum share of flagged words, which are typical of pornographic spam (ROOTS)."""
    max_longest_line: Number | None = None
    """Maximum number of characters in the longest line (BigCode)."""
    max_mean_line_length: Number | None = None
    """Maximum mean line length in characters (BigCode)."""
    min_alphanumeric_ratio: Number | None = None
    """Minimum share of letters, marks and digits among the characters (BigCode)."""
    max_generated: Number | None = None
    """Set to 0 to remove code whose first lines state that a program generated it. It affects only documents of the
    language `code`."""


class JudgeConfig(Section):
    """Thresholds of the documents: a preset of limits per language, then the changes of this run."""

    preset: Literal["bloomery", "roots", "fineweb2", "gopher", "none"] = "bloomery"
    """Origin of the limits. `bloomery`: `config/languages/<code>.toml`. `roots`, `fineweb2`, `gopher`: the published
    numbers in `config/thresholds/` (the language `code` keeps its own profile). `none`: only the limits in
    `thresholds`."""
    thresholds: Annotated[
        dict[str, Thresholds], Field(examples=[{"fr": {"min_words": 20, "max_flagged_word_ratio": None}}])
    ] = {}
    """Limits per language code that override the preset. An absent limit is taken from the preset; an explicit null
    switches the rule off. `default` applies to every language except `code`."""
    recipes: Annotated[dict[str, Thresholds], Field(examples=[{"web": {"min_words": 50}}])] = {}
    """Named groups of limits, with the keys of `thresholds`. A recipe overrides the limits of every language for the
    sources whose `recipe` names it."""


class MeasureConfig(Section):
    """How documents are measured: which words are counted."""

    words: Annotated[dict[str, WordLists], Field(examples=[{"fr": {"stop_words": ["le", "la", "de"]}}])] = {}
    """Words per language code, added to those of `config/languages/<code>.toml`. `default` applies to languages without
    words of their own."""


class CodeConfig(Section):
    """Rules that apply only to documents of the language `code`."""

    licences: Annotated[list[str], Field(examples=[["MIT", "Apache-2.0"]])] = []
    """SPDX names of the licences whose code is kept (`MIT`, `Apache-2.0`), in any letter case. Code under another
    licence, or without one, is removed. Default (empty): licences are not checked."""


class LinesConfig(Section):
    """Removal of lines that many documents of a source share (menus, notices, templates). Code is not changed."""

    enabled: bool = False
    """Remove repeated lines before documents are measured."""
    min_characters: Positive = 15
    """Lines shorter than this many characters are never removed (ROOTS: 15). White space at both ends of a line does
    not count."""
    min_documents: Annotated[int, Field(ge=2), NotBool] = 10
    """A line is removed if at least this many different documents of the same source and language contain it (ROOTS:
    10, for newspapers 2). `sources[].min_line_documents` overrides it for one source."""
    partitions: Annotated[int, Field(gt=0, le=65536), NotBool] = 1
    """Number of partitions of the line counts, which is the number of jobs that can work in parallel."""


class NearDedupConfig(Section):
    """Near duplicates: MinHash-LSH finds candidates, and the Jaccard similarity of their shingles confirms them."""

    enabled: bool = True
    """Search for near duplicates."""
    word_ngram: Positive = 5
    """Number of words in a shingle."""
    character_ngram: Positive = 5
    """Number of characters in a shingle, for scripts without spaces."""
    bands: Positive = 14
    """Number of LSH bands (FineWeb: 14 bands of 8 rows)."""
    rows: Positive = 8
    """Number of MinHash values in a band."""
    verify: bool = True
    """Compare the shingles of candidates before removing one. If false, only the best document of each cluster of
    candidates is kept."""
    min_jaccard: Share = 0.7
    """Minimum Jaccard similarity of two near duplicates. It is used only if `verify` is true."""


class DedupConfig(Section):
    """Exact and near duplicates over all shards and sources."""

    exact: bool = True
    """Remove documents whose text differs only in white space. If false, such documents are treated as near
    duplicates."""
    near: NearDedupConfig = NearDedupConfig()
    """Near duplicates."""
    partitions: Annotated[int, Field(gt=0, le=512), NotBool] = 1
    """Number of partitions of the duplicate search, which is the number of jobs that can work in parallel."""
    memory_bytes: Annotated[Bytes, Field(ge=1 << 20)] = 512 * 1024 * 1024
    """Memory limit in bytes of a job that works on the whole corpus. Data beyond the limit is processed in several
    passes."""
    against: Annotated[list[str], Field(examples=[["runs/old"]])] = []
    """Folders of earlier runs (`runs/old`) with a finished corpus. Documents that duplicate a document of those clean
    corpora are removed; the earlier runs are not changed."""


PiiKind = Literal["email", "ip", "phone", "iban", "card", "key", "national_id", "handle"]


class PiiConfig(Section):
    """Replacement of personal data by placeholders."""

    kinds: Annotated[list[PiiKind], Field(examples=[["email", "phone"]])] = [
        "email",
        "ip",
        "phone",
        "iban",
        "card",
        "key",
        "national_id",
    ]
    """Kinds of personal data to replace: e-mail addresses, public IP addresses, telephone numbers, bank accounts,
    payment cards, keys and tokens, and national identity numbers with a check digit. `handle` (`@name`) is off by
    default: people choose such names for the public, a text is often about them, and they cannot be validated."""


class DecontaminateConfig(Section):
    """Removal of documents that share an n-gram with an evaluation text."""

    paths: Annotated[list[str], Field(examples=[["evaluation/*.jsonl"]])] = []
    """Evaluation texts: file names or patterns of `.jsonl` (`.gz`, `.zst`) or `.parquet` files. Default (empty): no
    decontamination."""
    text_fields: Annotated[list[str], Field(min_length=1, examples=[["question", "answer"]])] = ["text"]
    """Fields of an evaluation item whose text is searched for. Every item must have at least one of them."""
    id_field: str | None = None
    """Field that names an evaluation item in the report. Default (null): file name and line number."""
    word_ngram: Positive = 13
    """Number of words in an n-gram (GPT-3: 13)."""
    character_ngram: Positive = 50
    """Number of characters in an n-gram, for scripts without spaces."""
    min_hits: Positive = 1
    """A document is removed if at least this many different n-grams of it occur in the evaluation texts."""


class MixtureConfig(Section):
    """Weights of the languages in tokenizer training and model training. `sources[].weight` sets the weight of a source
    within its language."""

    method: Literal["alpha", "unimax", "explicit"] = "alpha"
    """Rule for the language weights. `alpha`: bytes ** `alpha`. `unimax`: equal weights, up to `max_epochs` of each
    language (Chung et al. 2023). `explicit`: only `weights`, which must then name every language of the corpus."""
    alpha: Annotated[float, Field(gt=0.0, le=1.0), NotBool] = 0.3
    """Exponent of method `alpha`: a language's weight is proportional to (its bytes) ** alpha. With 1, weights follow
    the corpus; smaller values make the weights more even."""
    weights: Annotated[
        dict[str, Annotated[float, Field(ge=0.0), NotBool]], Field(examples=[{"fr": 0.6, "sw": 0.4}])
    ] = {}
    """Explicit weight per language, which replaces the share (0 to 1) that `alpha` or `unimax` would compute. 0
    excludes the language. All weights are then normalised to sum to 1."""
    max_epochs: Annotated[float, Field(gt=0.0, le=1e6), NotBool] | None = None
    """Maximum number of epochs over the text of each language and of each source. The share that the limit cuts off
    goes to the other languages and sources. Up to four epochs are nearly as good as new text (Muennighoff et al. 2023).
    Default (null): no limit."""
    budget_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Bytes of text that the training reads, used with `max_epochs` before token counts are known. Default (null): 4.7
    bytes for each training token."""

    @model_validator(mode="after")
    def _method_has_what_it_needs(self, info: ValidationInfo) -> MixtureConfig:
        found = []
        if self.method == "unimax" and self.max_epochs is None:
            message = "corpus.mixture: method unimax needs max_epochs; without it every language has the same weight"
            keys = ("corpus.mixture.max_epochs", "corpus.mixture.method")
            found.append(Contradiction(message, keys, suggestion="a number of epochs such as 4"))
        if self.method == "explicit" and not self.weights:
            message = "corpus.mixture: method explicit needs weights"
            keys = ("corpus.mixture.weights", "corpus.mixture.method")
            found.append(Contradiction(message, keys, suggestion="a weight for every language of the corpus"))
        report(found, info)
        return self


class CorpusConfig(Section):
    """How sources become a clean corpus."""

    ingest: IngestConfig = IngestConfig()
    """Reading of sources."""
    language_id: LanguageIdConfig = LanguageIdConfig()
    """Language identification."""
    measure: MeasureConfig = MeasureConfig()
    """Measures."""
    judge: JudgeConfig = JudgeConfig()
    """Thresholds."""
    code: CodeConfig = CodeConfig()
    """Rules for source code."""
    lines: LinesConfig = LinesConfig()
    """Removal of repeated lines."""
    dedup: DedupConfig = DedupConfig()
    """Deduplication."""
    decontaminate: DecontaminateConfig = DecontaminateConfig()
    """Removal of evaluation texts."""
    pii: PiiConfig = PiiConfig()
    """Replacement of personal data."""
    keep_removed_text: bool = False
    """Write the text of removed documents to `corpus/removed/` too, with personal data replaced."""
    mixture: MixtureConfig = MixtureConfig()
    """Mixture of languages."""

    @property
    def texts(self) -> str:
        """Folder of the shards whose text is measured, deduplicated and cleaned."""
        return "stripped" if self.lines.enabled else "raw"

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
