"""Ingest: write one part of a source as a shard of documents, and quarantine bad rows with the reason.

Rows are written in the source's order while they are read. Only a few thousand rows are in memory, whatever the size of
the part. Ids are made from keys alone, so they may repeat. The duplicate search numbers repeated ids, because it reads
all parts.
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
# Created once, because `json.dumps` with options creates an encoder for every row.
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, allow_nan=False)


class _Rows:
    """Collects rows as columns and writes them in batches."""

    def __init__(self, source: str, writer: TableWriter) -> None:
        self._source = source
        self._writer = writer
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, list[str]] = {name: [] for name in ("id", "language", "text", "meta")}
        self._bytes = 0

    def add(self, row: Row) -> int:
        """Add a row and return the size of its text in bytes."""
        text_bytes = len(row.text.encode("utf-8"))
        values = (document_id(self._source, row.key), row.language, row.text, _meta(row))
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self._bytes += text_bytes
        if len(self._columns["id"]) >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self.flush()
        return text_bytes

    def flush(self) -> None:
        """Write the collected rows as one batch."""
        columns = self._columns | {"source": [self._source] * len(self._columns["id"])}
        batch = pa.record_batch([columns[name] for name in DOCUMENT_SCHEMA.names], schema=DOCUMENT_SCHEMA)
        self._writer.write(batch)
        self._clear()


def _meta(row: Row) -> str:
    """Return JSON with the row's key, from which its id is made, and the row's other fields."""
    value = {"key": row.key} | ({"fields": row.meta} if row.meta else {})
    try:
        text = _ENCODER.encode(value)
        text.encode("utf-8")
    except (ValueError, TypeError):
        # The value contains NaN, a lone surrogate or a field name that is not a string. This is rare, so only such
        # values are converted item by item.
        return json.dumps(_finite(value), default=str, allow_nan=False)
    return text


def _finite(value: Any) -> Any:
    """Return the value with null in place of NaN and infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Tally:
    """Counts the rows for the manifest and for the limit on bad rows."""

    def __init__(self, stage: IngestStage) -> None:
        self._limit = stage.source.max_bad_share
        self.reasons: Counter[str] = Counter()
        self.documents: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.first_bad: BadRow | None = None

    @property
    def bad(self) -> int:
        """Number of bad rows so far."""
        return self.reasons.total()

    @property
    def rows(self) -> int:
        """Number of rows so far, good and bad."""
        return self.bad + self.documents.total()

    def add_bad(self, row: BadRow) -> None:
        """Count a bad row."""
        self.reasons[row.reason] += 1
        self.first_bad = self.first_bad or row

    def fault(self, *, ended: bool) -> str | None:
        """Return why ingest must stop, or None if it can continue.

        Few rows are not enough to judge a source: one bad row in a part of 50 rows is 2 %. So a part of fewer than
        `_CHECK_AT_END_ROWS` rows never fails here. `NumberedDocuments` applies the limit to the whole source.
        """
        if self.rows < (_CHECK_AT_END_ROWS if ended else _CHECK_AFTER_ROWS):
            return None
        bad = self.first_bad
        first = f"; first bad row: {bad.place}: {bad.reason}: {bad.detail}".rstrip(": ") if bad else ""
        if self.bad > self._limit * self.rows:
            share = f"{100 * self.bad / self.rows:.2f} %"
            limit = f"max_bad_share allows {100 * self._limit:.2f} %"
            return f"{self.bad} of {self.rows} rows are bad ({share}, but {limit}){first}"
        return None

    def counts(self) -> dict[str, Any]:
        """Return the counts for the manifest."""
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
    """Read one part of a source, write the shard `output` and the bad rows `quarantine` (JSON Lines).

    Return the manifest of the shard. A part without good rows gives an empty shard.

    Raises:
        InputError: the source cannot be read, or the part has at least 100 rows and more bad rows than
            `source.max_bad_share` allows. In the second case the bad rows are saved with the suffix `.failed.jsonl`
            instead of `.jsonl`, because a workflow deletes the declared outputs of a failed job.
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
                expected=f"fewer bad rows: correct the rows that {failed} lists, or increase max_bad_share",
            )
        rows.flush()
    failed.unlink(missing_ok=True)
    parameters = digest_json(stage.model_dump(mode="json", exclude={"files"}))
    counts = tally.counts() | {"quarantine_digest": digest_file(quarantine)}
    return writer.manifest(kind="documents", inputs=_inputs(stage), parameters=parameters, counts=counts)


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
    """Return the digest of each file by its path relative to the files' common folder.

    Because the paths are relative, the manifest is the same if the same data is in another folder. A file that is read
    in pieces has its size instead of its digest.
    """
    if not stage.files:
        return {stage.source.kind: digest_json(stage.source.model_dump(mode="json"))}
    if stage.piece:
        # With a digest, the job of every piece would have to read the whole file.
        path = Path(stage.files[0])
        return {path.name: f"{path.stat().st_size} bytes, piece {stage.piece.number} of {stage.piece.of}"}
    folder = os.path.commonpath([str(Path(name).absolute().parent) for name in stage.files])
    return {os.path.relpath(Path(name).absolute(), folder): digest_file(Path(name)) for name in stage.files}
