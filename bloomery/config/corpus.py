"""Cleaning: ingest, measure, judge, deduplicate, redact, mix."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.base.units import Bytes
from bloomery.config.section import Contradiction, Integer, NotBool, Number, Positive, Section, Share, report
from bloomery.config.words import WordLists


class IngestConfig(Section):
    """Reading sources into shards."""

    shard_bytes: Annotated[Bytes, Field(ge=1024)] = 256 * 1024 * 1024
    """Input bytes that one shard (one job) takes: small files are grouped up to it."""
    max_document_bytes: Annotated[Bytes, Field(ge=1024)] = 8 * 1024 * 1024
    """A longer line or document is quarantined."""


class LanguageIdConfig(Section):
    """Language identification, offline, with accept sets: CLD2, and n-grams for languages that it lacks."""

    min_share: Share = 0.6
    """Share of a document's bytes that the label's accept set must reach."""
    min_bytes: Integer = 120
    """Shorter documents are not judged by language: detectors guess there."""
    fallback_model: str | None = None
    """n-gram model (`bloomery corpus train-langid`) for languages that the detector lacks; null: the shipped one, for
    Bambara and Fon."""
    fasttext_model: str | None = None
    """A fastText classifier of languages (`.bin`, `.ftz`) instead of CLD2; needs the extra `fasttext`."""


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
    max_few_word_line_ratio: Number | None = None
    """Greatest share of lines of fewer than three words (C4)."""
    max_curly_brackets: Number | None = None
    """Greatest number of curly brackets, which prose has none of (C4: 0)."""
    min_script_ratio: Number | None = None
    """Least share of letters in the language's scripts (`scripts` of its profile)."""
    min_stop_word_ratio: Number | None = None
    """Least share of stop words (ROOTS): prose is full of function words, lists and menus are not."""
    max_flagged_word_ratio: Number | None = None
    """Greatest share of flagged words, those of pornographic spam (ROOTS)."""
    max_longest_line: Number | None = None
    """Greatest number of characters in a line (BigCode)."""
    max_mean_line_length: Number | None = None
    """Greatest mean length of lines, characters (BigCode)."""
    min_alphanumeric_ratio: Number | None = None
    """Least share of letters, marks and digits (BigCode)."""
    max_generated: Number | None = None
    """0 removes code that says in its first lines that a program wrote it; other documents are not looked at."""


class JudgeConfig(Section):
    """Thresholds: a preset of numbers per language, then what this run changes."""

    preset: Literal["bloomery", "roots", "fineweb2", "gopher", "none"] = "bloomery"
    """`bloomery`: `config/languages/<code>.toml`; `roots`, `fineweb2`, `gopher`: the published numbers in
    `config/thresholds/` (`code` keeps its own profile); `none`: only what `thresholds` says."""
    thresholds: dict[str, Thresholds] = {}
    """Changes per language code; `default` applies to every language but `code`."""
    recipes: dict[str, Thresholds] = {}
    """Changes by name, with the keys of `thresholds`: over those of every language, for the sources whose `recipe` it
    is."""


class MeasureConfig(Section):
    """Measuring documents: which words are counted."""

    words: dict[str, WordLists] = {}
    """Words per language code, besides those of `config/languages/<code>.toml`; `default`: of languages without any."""


class CodeConfig(Section):
    """Rules for documents of the language `code` alone."""

    licences: list[str] = []
    """SPDX names of the licences whose code is kept (`MIT`, `Apache-2.0`), whatever their case; code of another licence
    or of none goes. Empty: not judged."""


class LinesConfig(Section):
    """Lines that many documents of a source share (menus, notices, templates) are removed; code is left as it is."""

    enabled: bool = False
    """Remove them, before anything is measured."""
    min_characters: Positive = 15
    """Shorter lines always stay (ROOTS: 15). White space at both ends of a line does not count."""
    min_documents: Annotated[int, Field(ge=2), NotBool] = 10
    """A line is a template from so many different documents of one source and language on (ROOTS: 10, of newspapers
    2); `sources[].min_line_documents` is that of a source."""
    partitions: Annotated[int, Field(gt=0, le=65536), NotBool] = 1
    """Partitions of the count of lines: so many jobs at a time can work on it."""


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
    verify: bool = True
    """Compare the shingles of candidates; false: whole clusters of candidates go for their best document."""
    min_jaccard: Share = 0.7
    """Candidates with a lower exact similarity are not duplicates (with `verify`)."""


class DedupConfig(Section):
    """Duplicates, exact and near, over all shards and sources."""

    exact: bool = True
    """Remove documents with the same text but for whitespace (without it, they are near duplicates of one another)."""
    near: NearDedupConfig = NearDedupConfig()
    """Near duplicates."""
    partitions: Annotated[int, Field(gt=0, le=512), NotBool] = 1
    """Partitions of the search for duplicates: so many jobs at a time can work on it."""
    memory_bytes: Annotated[Bytes, Field(ge=1 << 20)] = 512 * 1024 * 1024
    """What a job over the whole corpus holds; what does not fit is gone through in several passes."""
    against: list[str] = []
    """Folders of earlier runs (`runs/old`): what duplicates a document of their clean corpus goes, theirs stays."""


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
    """How much of each language the tokenizer and the training see; of each source in it: `sources[].weight`."""

    method: Literal["alpha", "unimax", "explicit"] = "alpha"
    """`alpha`: by bytes ** `alpha`; `unimax`: the same for each language, up to `max_epochs` of it (Chung et al. 2023);
    `explicit`: `weights` alone, which must then name every language of the corpus."""
    alpha: Annotated[float, Field(gt=0.0, le=1.0), NotBool] = 0.3
    """Weight of a language is proportional to (its bytes) ** alpha; 1: as it is, small: more even."""
    weights: dict[str, Annotated[float, Field(ge=0.0), NotBool]] = {}
    """Explicit weights per language, in place of the share (0 to 1) that `alpha` or `unimax` would give it; 0 leaves it
    out. All are then scaled to sum to 1."""
    max_epochs: Annotated[float, Field(gt=0.0, le=1e6), NotBool] | None = None
    """Training reads no language, and no source in it, more often than this; what that cuts off goes to the others. Up
    to four epochs are nearly as good as new text (Muennighoff et al. 2023)."""
    budget_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Text that the training reads, for `max_epochs` before tokens are known; null: 4.7 bytes for each of them."""

    @model_validator(mode="after")
    def _method_has_what_it_needs(self, info: ValidationInfo) -> MixtureConfig:
        found = []
        if self.method == "unimax" and self.max_epochs is None:
            message = "corpus.mixture: method unimax needs max_epochs, or every language has the same weight"
            keys = ("corpus.mixture.max_epochs", "corpus.mixture.method")
            found.append(Contradiction(message, keys, suggestion="a number of epochs such as 4"))
        if self.method == "explicit" and not self.weights:
            message = "corpus.mixture: method explicit needs weights"
            keys = ("corpus.mixture.weights", "corpus.mixture.method")
            found.append(Contradiction(message, keys, suggestion="a weight for every language of the corpus"))
        report(found, info)
        return self


class CorpusConfig(Section):
    """Sources become a clean corpus."""

    ingest: IngestConfig = IngestConfig()
    """Reading."""
    language_id: LanguageIdConfig = LanguageIdConfig()
    """Language identification."""
    measure: MeasureConfig = MeasureConfig()
    """Measuring."""
    judge: JudgeConfig = JudgeConfig()
    """Thresholds."""
    code: CodeConfig = CodeConfig()
    """Source code."""
    lines: LinesConfig = LinesConfig()
    """Repeated lines."""
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

    @property
    def texts(self) -> str:
        """Folder of the shards whose text is measured, compared and cleaned."""
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
