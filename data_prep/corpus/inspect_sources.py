"""Read the first rows of each source, and count their fields, languages, repeated ids and sizes.

`bloomery config check --data` compares these counts with the configuration, and `bloomery init` writes a configuration
from them. The rows come from all files of a source, and are read by the same functions as in ingest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.units import format_bytes
from bloomery.config.part_input import PartInput
from bloomery.config.run import RunConfig
from bloomery.config.sources import Source
from bloomery.orchestration.plan_parts import plan_parts
from bloomery.orchestration.stage_sections import ingest_stage
from data_prep.corpus.rows import BadRow, Item
from data_prep.corpus.sources import read_source

ROWS = 1000
"""Number of rows that are read from each source unless the user asks for another number."""
COLUMNS = ("source", "files", "rows read", "bad", "languages", "repeated ids", "document size", "fields")
"""Titles of the columns of the table whose rows `table_rows` returns."""
_SHOWN = 8


@dataclass
class SourceSample:
    """The first rows of a source."""

    name: str
    kind: str
    files: list[str]
    """Files of the source, in order; empty if the source has no files."""
    file_bytes: int
    """Size of all files together, in bytes."""
    rows: int = 0
    """Number of rows that were read, bad rows included."""
    complete: bool = False
    """Whether the sample contains all rows of the source."""
    fields: Counter[str] = field(default_factory=Counter)
    """Field -> number of rows in which the field is present and not null. Empty for kinds of sources without fields."""
    values: dict[str, list[Any]] = field(default_factory=dict)
    """Field -> all values of the field that are not null."""
    languages: Counter[str] = field(default_factory=Counter)
    """Language -> number of good rows."""
    language_bytes: Counter[str] = field(default_factory=Counter)
    """Language -> bytes of text in its good rows."""
    sizes: list[int] = field(default_factory=list)
    """Size of each good row's text, in bytes."""
    bad: Counter[str] = field(default_factory=Counter)
    """Reason -> number of bad rows."""
    first_bad: BadRow | None = None
    repeated_ids: int = 0
    """Number of good rows with the same id as an earlier row."""
    error: InputError | None = None
    """Error that ended the reading; None if there was no error."""

    def observe(self, values: Mapping[str, Any]) -> None:
        """Count the fields of one row."""
        for name, value in values.items():
            if value is not None:
                self.fields[str(name)] += 1
                self.values.setdefault(str(name), []).append(value)

    def add(self, item: Item, seen: set[str]) -> None:
        """Count one row. `seen` holds the ids of the good rows before it."""
        self.rows += 1
        if isinstance(item, BadRow):
            self.bad[item.reason] += 1
            self.first_bad = self.first_bad or item
            return
        self.languages[item.language] += 1
        size = len(item.text.encode("utf-8"))
        self.language_bytes[item.language] += size
        self.sizes.append(size)
        self.repeated_ids += item.key in seen
        seen.add(item.key)

    @property
    def text_bytes(self) -> int:
        """Size of the texts of all rows that were read, in bytes."""
        return sum(self.sizes)


def inspect_source(config: RunConfig, source: Source, rows: int = ROWS) -> SourceSample:
    """Return the first `rows` rows of a source, about the same number from each of its files.

    If the source as a whole cannot be read, the error is stored in `error` of the result.

    Raises:
        ConfigError: a path of the source matches no file.
    """
    parts = plan_parts(source.model_copy(update={"max_documents": None}), config.corpus.ingest)
    files = _whole_files(parts)
    sample = SourceSample(source.name, source.kind, files, sum(Path(file).stat().st_size for file in files))
    limit = min(rows, source.max_documents or rows)
    sample.complete = True
    seen: set[str] = set()
    try:
        for number, file in enumerate(files or [None]):
            share = -(-(limit - sample.rows) // max(1, len(files) - number))
            # One more row than needed is read, to learn whether the file has further rows.
            only = source.model_copy(update={"max_documents": share + 1})
            stage = ingest_stage(config, only, 0, [file] if file else None)
            for position, item in enumerate(read_source(stage, sample.observe)):
                if position == share:
                    sample.complete = False
                    break
                sample.add(item, seen)
    except InputError as error:
        sample.complete, sample.error = False, error
    sample.complete = sample.complete or sample.rows == source.max_documents
    return sample


def _whole_files(parts: list[PartInput]) -> list[str]:
    """Return every file of the parts once. A file in several pieces is listed once, to be read from its beginning."""
    return list(dict.fromkeys(file for part in parts for file in part.files or []))


def inspect_sources(config: RunConfig, rows: int = ROWS) -> list[SourceSample]:
    """Return the first rows of each source of text, in the order of the configuration.

    Raises:
        ConfigError: a path of a source matches no file.
    """
    return [inspect_source(config, source, rows) for source in config.text_sources]


def table_rows(samples: list[SourceSample]) -> list[tuple[str, ...]]:
    """Return one row of text for each source, with the columns `COLUMNS`."""
    return [
        (
            f"{sample.name} ({sample.kind})",
            f"{len(sample.files)}, {format_bytes(sample.file_bytes)}" if sample.files else "-",
            f"{sample.rows}, all" if sample.complete else str(sample.rows),
            ", ".join(f"{reason} ({count})" for reason, count in sample.bad.most_common(3)) or "0",
            most_common(sample.languages) or "-",
            str(sample.repeated_ids),
            f"median {format_bytes(median(sample.sizes))}, largest {format_bytes(max(sample.sizes))}"
            if sample.sizes
            else "-",
            ", ".join(sample.fields) or "-",
        )
        for sample in samples
    ]


def most_common(counts: Counter[str]) -> str:
    """Return the most frequent names with their counts, and the number of further names."""
    text = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_SHOWN))
    return text + (f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else "")
