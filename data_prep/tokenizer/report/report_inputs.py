"""Gather the inputs of a report: a sample of the shards, pre-token counts, aligned text, and reference tokenizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.config.tokenizer_report import TokenizerReportConfig
from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.report.counts import Counts, fits
from data_prep.tokenizer.report.parallel_text import Rows, parallel_documents, read_parallel
from data_prep.tokenizer.report.references import load_references
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer
from data_prep.tokenizer.sample_documents import sample_documents


@dataclass(frozen=True)
class ReportInputs:
    """Inputs of a report."""

    texts: dict[str, list[str]]
    """Sampled texts per language."""
    counts: Counts | None = None
    """Pre-token counts made with the tokenizer's pre-tokenizer. None if the report has no such counts."""
    rows: Rows | None = None
    """Rows of aligned text. None if no aligned text is configured."""
    references: dict[str, tuple[ReportedTokenizer, str | None]] = field(default_factory=dict)
    """Reference tokenizers by name, each with the commit of its Hub repository. The commit is None for local files."""


def find_shards(corpus: Sequence[Path], parts: Sequence[str] | None = None) -> dict[str, Path]:
    """Return the paths of the shards, by name.

    Args:
        corpus: corpus folders of runs (the shards are in their folder `clean`), folders of shards, or shards.
        parts: parts of a run. If given, only the shards of these parts are returned.

    Raises:
        InputError: if there are no shards.
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
        raise InputError(
            "there are no shards",
            where=os.pathsep.join(map(str, corpus)),
            expected="a run's corpus folder, or a folder with Parquet files of documents",
        )
    return dict(sorted(found.items()))


def gather_material(
    subject: ReportedTokenizer,
    corpus: Sequence[Path],
    counts: Sequence[Path],
    config: TokenizerReportConfig,
    folder: Path,
    parts: Sequence[str] | None = None,
) -> ReportInputs:
    """Gather all inputs that `config` requests.

    The references are loaded first, so that an error about a reference is raised before slow work starts.

    Args:
        subject: the reported tokenizer.
        corpus: see `find_shards`.
        counts: count tables or folders of them. If empty, the report is made without counts.
        config: settings of the report.
        folder: folder for temporary files of counts that do not fit into memory.
        parts: parts of a run (`source/00000`). None for all parts.

    Raises:
        InputError: if shards, counts, aligned text or references are missing or damaged.
        ConfigError, TryAgainError: if a reference cannot be read from the Hub.
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
