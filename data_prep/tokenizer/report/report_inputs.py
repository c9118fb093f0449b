"""Finds what a report is made from: shards to sample, counts that fit the tokenizer, aligned text, references."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.config.tokenizer_report import TokenizerReportConfig
from data_prep.tokenizer.count_tables import find_tables
from data_prep.tokenizer.report.counts import Counts, fits
from data_prep.tokenizer.report.parallel_text import Rows, parallel_documents, read_parallel
from data_prep.tokenizer.report.references import load_references
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer
from data_prep.tokenizer.sample_documents import sample_documents


@dataclass(frozen=True)
class ReportInputs:
    """What a report is made from."""

    texts: dict[str, list[str]]
    """The sample: texts per language."""
    counts: Counts | None = None
    """Pre-token counts by the tokenizer's own split; None without."""
    rows: Rows | None = None
    """Aligned text."""
    references: dict[str, tuple[ReportedTokenizer, str | None]] = field(default_factory=dict)
    """Other tokenizers by name, with the commit of those of a Hub."""


def find_shards(corpus: Sequence[Path], parts: Sequence[str] | None = None) -> dict[str, Path]:
    """Shards by name: those of `parts`, else every table of a run's corpus folder, of any folder, or named by itself.

    Raises InputError when there is none.
    """
    found: dict[str, Path] = {}
    for place in corpus:
        folder = place / "clean" if (place / "clean").is_dir() else place
        if parts is not None:
            found |= {part: folder / f"{part}.parquet" for part in parts}
        elif place.is_dir():
            found |= {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.parquet")}
        else:
            found[place.with_suffix("").as_posix()] = place
    if not found:
        raise InputError("no shards", where=os.pathsep.join(map(str, corpus)), expected="Parquet tables of documents")
    return dict(sorted(found.items()))


def gather_material(
    subject: ReportedTokenizer,
    corpus: Sequence[Path],
    counts: Sequence[Path],
    config: TokenizerReportConfig,
    folder: Path,
    parts: Sequence[str] | None = None,
) -> ReportInputs:
    """Everything that `config` asks for. What may be missing is looked for first, before anything takes long.

    Args:
        subject: the tokenizer that is reported on.
        corpus: see `find_shards`.
        counts: folders of count tables, or such tables; none: without counts.
        config: settings.
        folder: for what does not fit into memory.
        parts: parts (`source/00000`) of a run.

    Raises:
        InputError: missing or damaged shards, counts, aligned text or references.
        ConfigError, TryAgainError: a reference on the Hub.
    """
    references = load_references(config.references)
    shards = find_shards(corpus, parts)
    tables = find_tables(counts, parts) if counts else []
    rows = read_parallel(Path(config.parallel)) if config.parallel is not None else None
    if config.parallel_source is not None:
        rows = parallel_documents(shards, config.parallel_source)
    return ReportInputs(
        texts=sample_documents(shards),
        counts=Counts.read(tables, folder) if tables and fits(tables, subject.description) else None,
        rows=rows,
        references=references,
    )
