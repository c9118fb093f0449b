"""The configuration of the corpus stages: ingest, measure, judge, deduplicate, redact and mix."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.base.units import Bytes
from bloomery.config.section import Contradiction, Integer, Language, NotBool, Number, Positive, Section, Share, report
from bloomery.config.words import WordLists


class IngestConfig(Section):
    """Settings for reading sources into shards."""

    shard_bytes: Annotated[Bytes, Field(ge=1024)] = 256 * 1024 * 1024
    """Target size of the input of one ingest job, in bytes of source files. The job makes one shard (a Parquet file of
    documents). Small files are grouped up to this size. A larger file is divided among several jobs if its format
    allows it."""
    max_document_bytes: Annotated[Bytes, Field(ge=1024)] = 8 * 1024 * 1024
    """Maximum size of a document in bytes. A longer document, or a longer line of a source file, is left out of the
    corpus and recorded as a bad row. The value must not exceed `shard_bytes`."""


class LanguageIdConfig(Section):
    """Offline language identification: CLD2, and an n-gram model for languages that CLD2 lacks."""

    min_share: Share = 0.6
    """Minimum share of a document's bytes that the language detector must assign to the document's labelled language.
    Detector codes that the language's profile (`config/languages/<code>.toml`) lists in `accept` count as this
    language. Documents below the minimum are removed, unless their source sets `trust_language`."""
    min_bytes: Integer = 120
    """Documents shorter than this many bytes skip the language check, because language detectors are unreliable
    on short text."""
    fallback_model: str | None = None
    """Path of an n-gram model that identifies languages which the main language detector does not know. `bloomery
    corpus train-langid` makes such a model. Default (null): the shipped model for Bambara and Fon."""
    fasttext_model: str | None = None
    """Path of a fastText language classifier (`.bin`, `.ftz`) that replaces the language detector CLD2. The
    classifier needs the Python extra `fasttext`. Default (null): CLD2."""


class Thresholds(Section):
    """Limits on the measures of a document. A document that violates a limit is removed. The value null means no limit.

    The name of a limit consists of `min_` or `max_` and the name of the measure. The name in parentheses at the end of
    a description is the project whose filters use this measure.
    """

    min_characters: Number | None = None
    """Minimum number of characters in a document."""
    min_words: Number | None = None
    """Minimum number of words in a document. In scripts without spaces, each character counts as a word."""
    max_words: Number | None = None
    """Maximum number of words in a document. In scripts without spaces, each character counts as a word."""
    min_mean_word_length: Number | None = None
    """Minimum mean length of a document's words, in characters (Gopher)."""
    max_mean_word_length: Number | None = None
    """Maximum mean length of a document's words, in characters (Gopher)."""
    max_character_repetition_ratio: Number | None = None
    """Maximum share of a document's sequences of 10 characters that are repeated (ROOTS)."""
    max_word_repetition_ratio: Number | None = None
    """Maximum share of a document's sequences of 5 words that are repeated (ROOTS)."""
    max_special_ratio: Number | None = None
    """Maximum share of a document's characters that are punctuation, symbols, digits or control characters. Letters and
    marks never count."""
    max_digit_ratio: Number | None = None
    """Maximum share of a document's characters that are digits."""
    min_alphabetic_word_ratio: Number | None = None
    """Minimum share of a document's words that contain a letter (Gopher)."""
    max_short_line_ratio: Number | None = None
    """Maximum share of a document's lines that have at most 30 characters (FineWeb)."""
    max_duplicate_line_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated lines (FineWeb, Gopher)."""
    min_terminal_punctuation_ratio: Number | None = None
    """Minimum share of a document's lines that end with a sentence mark, such as a full stop (FineWeb)."""
    max_newline_ratio: Number | None = None
    """Maximum number of line breaks in a document, divided by its number of words (FineWeb)."""
    max_bullet_ratio: Number | None = None
    """Maximum share of a document's lines that start with a bullet (Gopher)."""
    max_replacement_ratio: Number | None = None
    """Maximum share of a document's characters that are damaged: replacement characters (U+FFFD), and pairs such as
    `Ã©` from text that was decoded with the wrong encoding."""
    max_duplicate_line_fraction: Number | None = None
    """Maximum share of a document's lines that repeat an earlier line (Gopher)."""
    max_duplicate_paragraph_fraction: Number | None = None
    """Maximum share of a document's paragraphs that repeat an earlier paragraph (Gopher)."""
    max_duplicate_paragraph_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated paragraphs (Gopher)."""
    max_top_2gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in copies of its most frequent sequence of 2 words (Gopher)."""
    max_top_3gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in copies of its most frequent sequence of 3 words (Gopher)."""
    max_top_4gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in copies of its most frequent sequence of 4 words (Gopher)."""
    max_duplicate_5gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 5 words (Gopher)."""
    max_duplicate_6gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 6 words (Gopher)."""
    max_duplicate_7gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 7 words (Gopher)."""
    max_duplicate_8gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 8 words (Gopher)."""
    max_duplicate_9gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 9 words (Gopher)."""
    max_duplicate_10gram_ratio: Number | None = None
    """Maximum share of a document's characters that are in repeated sequences of 10 words (Gopher)."""
    max_hash_ratio: Number | None = None
    """Maximum number of `#` in a document, divided by its number of words (Gopher)."""
    max_ellipsis_ratio: Number | None = None
    """Maximum number of ellipses in a document, divided by its number of words (Gopher)."""
    max_ellipsis_line_ratio: Number | None = None
    """Maximum share of a document's lines that end with an ellipsis (Gopher)."""
    max_few_word_line_ratio: Number | None = None
    """Maximum share of a document's lines that have fewer than three words (C4)."""
    max_curly_brackets: Number | None = None
    """Maximum number of curly brackets in a document. C4 allows none, because prose has none."""
    min_script_ratio: Number | None = None
    """Minimum share of a document's letters that belong to the scripts of its language. `scripts` in the language's
    profile, `config/languages/<code>.toml`, lists them."""
    min_stop_word_ratio: Number | None = None
    """Minimum share of a document's words that are stop words (ROOTS). Prose contains many function words; lists and
    menus contain few."""
    max_flagged_word_ratio: Number | None = None
    """Maximum share of a document's words that are flagged words, which are typical of pornographic spam (ROOTS)."""
    max_longest_line: Number | None = None
    """Maximum number of characters in a document's longest line (BigCode)."""
    max_mean_line_length: Number | None = None
    """Maximum mean length of a document's lines, in characters (BigCode)."""
    min_alphanumeric_ratio: Number | None = None
    """Minimum share of a document's characters that are letters, marks or digits (BigCode)."""
    max_generated: Number | None = None
    """Set this limit to 0 to remove code whose first lines state that a program generated it. It applies only to
    documents of the language `code`."""


class JudgeConfig(Section):
    """Limits that a document must meet: a preset of limits per language, and the changes of this run."""

    preset: Literal["bloomery", "roots", "fineweb2", "gopher", "none"] = "bloomery"
    """Initial limits on documents of each language, which `thresholds` and `recipes` can override. `bloomery`: the
    limits in `config/languages/<code>.toml`. `roots`, `fineweb2`, `gopher`: the published limits in
    `config/thresholds/`; for the language `code`, the limits in `config/languages/code.toml`. `none`: no initial
    limits, so only those in `thresholds` and `recipes` apply."""
    thresholds: Annotated[
        dict[str, Thresholds], Field(examples=[{"fr": {"min_words": 20, "max_flagged_word_ratio": None}}])
    ] = {}
    """Limits on documents per language code, which override the limits of the preset. A limit that is absent here is
    taken from the preset. The value null switches a limit off. The entry `default` applies to every language except
    `code`."""
    recipes: Annotated[dict[str, Thresholds], Field(examples=[{"web": {"min_words": 50}}])] = {}
    """Named groups of limits on documents. Each group may set the same limits as a language in `thresholds`. For the
    sources whose key `recipe` names the group, its limits override the limits of every language."""


class MeasureConfig(Section):
    """Settings for measuring documents: the words that are counted in each language."""

    words: Annotated[dict[str, WordLists], Field(examples=[{"fr": {"stop_words": ["le", "la", "de"]}}])] = {}
    """Stop words and flagged words per language code. They are added to the words in `config/languages/<code>.toml`.
    The entry `default` applies to languages that have no words in either place."""


class CodeConfig(Section):
    """Rules that apply only to documents of the language `code`."""

    licences: Annotated[list[str], Field(examples=[["MIT", "Apache-2.0"]])] = []
    """SPDX names (`MIT`, `Apache-2.0`) of the licences under which source code is kept, in upper or lower case. Source
    code under another licence, or without a licence, is removed. Default (empty): licences are not checked."""


class LinesConfig(Section):
    """Removal of lines that many documents of a source share, such as menus and notices. Source code is not changed."""

    enabled: bool = False
    """If true, lines that many documents of a source share are removed before documents are measured."""
    min_characters: Positive = 15
    """Lines shorter than this many characters are never removed as repeated lines (ROOTS uses 15). White space
    at both ends of a line does not count."""
    min_documents: Annotated[int, Field(ge=2), NotBool] = 10
    """A line is removed if at least this many different documents of the same source and language contain it.
    ROOTS uses 10, and 2 for newspapers. `sources[].min_line_documents` overrides this number for one source."""
    partitions: Annotated[int, Field(gt=0, le=65536), NotBool] = 1
    """Number of partitions into which the search for repeated lines is divided. Each partition is one job, and these
    jobs can run in parallel."""


class NearDedupConfig(Section):
    """Near duplicates: MinHash-LSH finds candidates, and the Jaccard similarity of their shingles confirms them."""

    enabled: bool = True
    """Search for near duplicates."""
    word_ngram: Positive = 5
    """Number of words in a shingle, a sequence of consecutive words. Documents with many equal shingles are near
    duplicates."""
    character_ngram: Positive = 5
    """Number of characters in a shingle, a sequence of consecutive characters, for documents in scripts without
    spaces."""
    bands: Positive = 14
    """Number of LSH bands, which are groups of `rows` MinHash values. Two documents with an equal band are candidates
    for near duplicates. FineWeb uses 14 bands of 8 values."""
    rows: Positive = 8
    """Number of MinHash values in an LSH band. A larger number finds fewer candidates for near duplicates."""
    verify: bool = True
    """If true, the shingles of two candidates for near duplicates are compared before one of them is removed. If false,
    only one document of each connected group of candidates is kept: the one whose source has the highest
    `sources[].priority`, and among these the one with the most words."""
    min_jaccard: Share = 0.7
    """Minimum Jaccard similarity between the shingles of two documents that count as near duplicates. It is used only
    if `verify` is true."""


class DedupConfig(Section):
    """Removal of exact and near duplicates over all shards and sources."""

    exact: bool = True
    """If true, only one of several documents whose texts differ only in white space is kept. If false, such documents
    are treated as near duplicates."""
    near: NearDedupConfig = NearDedupConfig()
    """Search for near duplicates."""
    partitions: Annotated[int, Field(gt=0, le=512), NotBool] = 1
    """Number of partitions into which the search for duplicate documents is divided. Each partition is one job, and
    these jobs can run in parallel."""
    memory_bytes: Annotated[Bytes, Field(ge=1 << 20)] = 512 * 1024 * 1024
    """Memory, in bytes, for the data of a job that compares documents or lines of the whole corpus. If the data need
    more, the job processes them in several passes. In addition, the job requests up to 1.5 GB for everything else."""
    against: Annotated[list[str], Field(examples=[["runs/old"]])] = []
    """Folders of earlier runs (`runs/old`) whose corpus is finished. Documents of this run that duplicate a document in
    the clean corpus of an earlier run are removed. The earlier runs are not changed."""


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
    """Kinds of personal data to replace: e-mail addresses, public IP addresses, telephone numbers, bank account
    numbers (IBAN), payment card numbers, secret keys and access tokens, and national identity numbers with a check
    digit. `handle` (a user name such as `@name`) is not replaced by default, because such names are public and cannot
    be validated."""


class DecontaminateConfig(Section):
    """Removal of documents that share an n-gram with an evaluation text."""

    paths: Annotated[list[str], Field(examples=[["evaluation/*.jsonl"]])] = []
    """File names or patterns of the files with evaluation texts: `.jsonl`, also compressed (`.gz`, `.zst`), or
    `.parquet`. Documents that share n-grams with these texts are removed. Default (empty): no evaluation texts are
    compared."""
    text_fields: Annotated[list[str], Field(min_length=1, examples=[["question", "answer"]])] = ["text"]
    """Fields of an evaluation item (a row of an evaluation file) whose text must not occur in the corpus. Every item
    must have at least one of these fields."""
    id_field: str | None = None
    """Field of an evaluation item whose value identifies the item in the corpus report. Default (null): the file name
    and the line number identify the item."""
    word_ngram: Positive = 13
    """Number of consecutive words in an n-gram. Documents and evaluation texts are compared by n-grams. GPT-3 used
    13."""
    character_ngram: Positive = 50
    """Number of consecutive characters in an n-gram, for documents in scripts without spaces."""
    min_hits: Positive = 1
    """A document is removed if at least this many of its different n-grams occur in the evaluation texts."""


class MixtureConfig(Section):
    """Weights of the languages in tokenizer training and model training. `sources[].weight` sets the weight of a source
    within its language."""

    method: Literal["alpha", "unimax", "explicit"] = "alpha"
    """Method that computes the weight of each language. `alpha`: proportional to the bytes of the language,
    raised to the power of `corpus.mixture.alpha`. `unimax`: equal weights, but at most `max_epochs` epochs of each
    language (Chung et al. 2023). `explicit`: the values of `weights`, which must then name every language of the
    corpus."""
    alpha: Annotated[float, Field(gt=0.0, le=1.0), NotBool] = 0.3
    """Exponent of the method `alpha`: a language's weight is proportional to the bytes of the language, raised to the
    power of this exponent. With 1, the weights are proportional to the bytes. Smaller values make the weights more
    even."""
    weights: Annotated[
        dict[Language, Annotated[float, Field(ge=0.0), NotBool]], Field(examples=[{"fr": 0.6, "sw": 0.4}])
    ] = {}
    """Weight per language code. It replaces the share (0 to 1) that the method `alpha` or `unimax` computes for this
    language. The weight 0 excludes the language. All weights are then normalised to sum to 1."""
    max_epochs: Annotated[float, Field(gt=0.0, le=1e6), NotBool] | None = None
    """Maximum number of epochs over the text of each language and of each source. If the limit reduces the
    share of a language or a source, the others receive the difference. Up to four epochs are nearly as good as new text
    (Muennighoff et al. 2023). Default (null): no limit."""
    budget_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Estimated number of bytes of text that the training reads. It is needed to apply `max_epochs` before the number
    of tokens is known. Default (null): 4.7 bytes for each training token."""

    @model_validator(mode="after")
    def _method_has_what_it_needs(self, info: ValidationInfo) -> MixtureConfig:
        found = []
        if self.method == "unimax" and self.max_epochs is None:
            message = (
                "corpus.mixture: method 'unimax' needs max_epochs, which is not set. Without max_epochs, every "
                "language would have the same weight"
            )
            keys = ("corpus.mixture.max_epochs", "corpus.mixture.method")
            suggestion = "a number of epochs in corpus.mixture.max_epochs, such as 4, or another corpus.mixture.method"
            found.append(Contradiction(message, keys, suggestion=suggestion))
        if self.method == "explicit" and not self.weights:
            message = "corpus.mixture: method 'explicit' needs the key weights, which is empty"
            keys = ("corpus.mixture.weights", "corpus.mixture.method")
            suggestion = (
                "a weight for every language of the corpus in corpus.mixture.weights, or another corpus.mixture.method"
            )
            found.append(Contradiction(message, keys, suggestion=suggestion))
        report(found, info)
        return self


class CorpusConfig(Section):
    """Settings of the stages that make a clean corpus from the sources."""

    ingest: IngestConfig = IngestConfig()
    """How the sources are read into shards."""
    language_id: LanguageIdConfig = LanguageIdConfig()
    """Language identification."""
    measure: MeasureConfig = MeasureConfig()
    """Measurement of documents."""
    judge: JudgeConfig = JudgeConfig()
    """Limits that a document must meet."""
    code: CodeConfig = CodeConfig()
    """Rules for source code."""
    lines: LinesConfig = LinesConfig()
    """Removal of repeated lines."""
    dedup: DedupConfig = DedupConfig()
    """Removal of duplicate documents."""
    decontaminate: DecontaminateConfig = DecontaminateConfig()
    """Removal of documents that contain evaluation texts."""
    pii: PiiConfig = PiiConfig()
    """Replacement of personal data."""
    keep_removed_text: bool = False
    """If true, the table of removed documents in `corpus/removed/` also contains their text, with personal data
    replaced."""
    mixture: MixtureConfig = MixtureConfig()
    """Mixture of languages."""

    @property
    def texts(self) -> str:
        """Name of the folder with the shards whose text is measured, deduplicated and cleaned."""
        return "stripped" if self.lines.enabled else "raw"

    @model_validator(mode="after")
    def _document_fits_shard(self, info: ValidationInfo) -> CorpusConfig:
        if self.ingest.max_document_bytes > self.ingest.shard_bytes:
            message = (
                f"corpus: ingest.max_document_bytes ({self.ingest.max_document_bytes}) must not exceed "
                f"ingest.shard_bytes ({self.ingest.shard_bytes})"
            )
            keys = ("corpus.ingest.max_document_bytes", "corpus.ingest.shard_bytes")
            suggestion = "a smaller corpus.ingest.max_document_bytes, or a larger corpus.ingest.shard_bytes"
            report([Contradiction(message, keys, suggestion=suggestion)], info)
        return self
