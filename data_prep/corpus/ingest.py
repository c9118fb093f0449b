"""Ingest: one part of a source becomes a shard of documents; what cannot become one is quarantined with its reason.

Rows are written in the source's order as they come: memory is that of a few thousand of them, whatever the part. Ids
are made from keys alone and may repeat; the search for duplicates, which sees all parts, numbers the occurrences.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from bloomery.base.atomic import atomic_path
from bloomery.base.digest import digest_file, digest_json, document_id
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.config.stages import IngestStage
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources import read_source
from data_prep.formats.shard import DOCUMENT_SCHEMA, TableWriter

_FLUSH_ROWS = 4096
_FLUSH_BYTES = 8 << 20
_CHECK_AFTER_ROWS = 1000
_CHECK_AT_END_ROWS = 100
# Made once: `json.dumps` with any option makes one a row.
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, allow_nan=False)


class _Rows:
    """Columns of the rows since the last batch."""

    def __init__(self, source: str, writer: TableWriter) -> None:
        self._source = source
        self._writer = writer
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, list[str]] = {name: [] for name in ("id", "language", "text", "meta")}
        self._bytes = 0

    def add(self, row: Row) -> int:
        """Add a row; returns the bytes of its text."""
        text_bytes = len(row.text.encode("utf-8"))
        values = (document_id(self._source, row.key), row.language, row.text, _meta(row))
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self._bytes += text_bytes
        if len(self._columns["id"]) >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self.flush()
        return text_bytes

    def flush(self) -> None:
        """Write what is held."""
        columns = self._columns | {"source": [self._source] * len(self._columns["id"])}
        batch = pa.record_batch([columns[name] for name in DOCUMENT_SCHEMA.names], schema=DOCUMENT_SCHEMA)
        self._writer.write(batch)
        self._clear()


def _meta(row: Row) -> str:
    """The row's key, from which its id was made, and what else the source said, as JSON."""
    value = {"key": row.key} | ({"fields": row.meta} if row.meta else {})
    try:
        text = _ENCODER.encode(value)
        text.encode("utf-8")
    except (ValueError, TypeError):
        # NaN, a lone surrogate, or a name that is no string: rare, so only then is the value gone through.
        return json.dumps(_finite(value), default=str, allow_nan=False)
    return text


def _finite(value: Any) -> Any:
    """The value with null for NaN and infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Tally:
    """What was read, for the manifest and for the limit on bad rows."""

    def __init__(self, stage: IngestStage) -> None:
        self._limit = stage.source.max_bad_share
        self.reasons: Counter[str] = Counter()
        self.documents: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.first_bad: BadRow | None = None

    @property
    def bad(self) -> int:
        """Bad rows so far."""
        return self.reasons.total()

    @property
    def rows(self) -> int:
        """Rows so far, good and bad."""
        return self.bad + self.documents.total()

    def add_bad(self, row: BadRow) -> None:
        """Count a bad row."""
        self.reasons[row.reason] += 1
        self.first_bad = self.first_bad or row

    def fault(self, *, ended: bool) -> str | None:
        """Why the source must stop, or None.

        A share of few rows says little about the source (one row in a part of 50 is 2 %), so a part of less than
        `_CHECK_AT_END_ROWS` rows never stops it here; `Catalogue` holds the source as a whole to its limit.
        """
        if self.rows < (_CHECK_AT_END_ROWS if ended else _CHECK_AFTER_ROWS):
            return None
        bad = self.first_bad
        first = f"; the first: {bad.file}, line {bad.line}: {bad.reason} {bad.detail}".rstrip() if bad else ""
        if self.bad > self._limit * self.rows:
            share = f"{100 * self.bad / self.rows:.2f} %"
            return f"{self.bad} of {self.rows} rows are bad ({share}, max_bad_share {100 * self._limit:.2f} %){first}"
        return None

    def counts(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "documents": self.documents.total(),
            "bytes": self.bytes.total(),
            "languages": {
                language: {"documents": count, "bytes": self.bytes[language]}
                for language, count in sorted(self.documents.items())
            },
            "bad_rows": self.bad,
            "bad_reasons": dict(sorted(self.reasons.items())),
            "max_bad_share": self._limit,
        }


def ingest(stage: IngestStage, output: Path, quarantine: Path) -> dict[str, Any]:
    """Read one part of a source into the shard `output`, bad rows into `quarantine` (JSON Lines); returns the manifest.

    The shard of a part without a good row is empty.

    Raises:
        InputError: the source cannot be read, or the part has at least 100 rows and more bad ones than
            `source.max_bad_share` allows. In the last case the bad rows stay in `<quarantine>.failed.jsonl`: a
            workflow deletes the declared outputs of a job that fails, and a person needs them then most.
    """
    tally = _Tally(stage)
    failed = quarantine.with_suffix(".failed.jsonl")
    with TableWriter.open(output, DOCUMENT_SCHEMA) as writer:
        rows = _Rows(stage.source.name, writer)
        with atomic_path(quarantine) as temporary, temporary.open("w", encoding="utf-8") as log:
            fault = _read(stage, rows, tally, log)
        if fault:
            quarantine.replace(failed)
            raise InputError(
                fault,
                where=f"sources[{stage.source.name}], part {stage.part}",
                expected=f"a source with fewer bad rows, or a higher max_bad_share; the bad rows: {failed}",
            )
        rows.flush()
    failed.unlink(missing_ok=True)
    parameters = digest_json(stage.model_dump(mode="json", exclude={"files"}))
    return writer.manifest(kind="documents", inputs=_inputs(stage), parameters=parameters, counts=tally.counts())


def _read(stage: IngestStage, rows: _Rows, tally: _Tally, log: IO[str]) -> str | None:
    with Progress(f"ingest {stage.source.name}/{stage.part:05d}", None) as bar:
        for item in read_source(stage):
            if isinstance(item, Row):
                tally.bytes[item.language] += rows.add(item)
                tally.documents[item.language] += 1
                bar.advance()
                continue
            tally.add_bad(item)
            log.write(json.dumps(asdict(item), ensure_ascii=False) + "\n")
            if fault := tally.fault(ended=False):
                return fault
    return tally.fault(ended=True)


def _inputs(stage: IngestStage) -> dict[str, str]:
    """Digest per file, named relative to the files' common folder, so that the same data elsewhere give equal bytes.

    Of a file that is read in pieces: its size.
    """
    if not stage.files:
        return {stage.source.kind: digest_json(stage.source.model_dump(mode="json"))}
    if stage.piece:
        # Every piece's job would read all of a huge file once more.
        path = Path(stage.files[0])
        return {path.name: f"{path.stat().st_size} bytes, piece {stage.piece.number} of {stage.piece.of}"}
    folder = os.path.commonpath([str(Path(name).absolute().parent) for name in stage.files])
    return {os.path.relpath(Path(name).absolute(), folder): digest_file(Path(name)) for name in stage.files}
