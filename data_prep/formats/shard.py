"""Write and read shards: a Parquet file of `id, source, language, text, meta`, and a manifest that is written last.

The rows of a shard are in the order of the source. A shard without a manifest counts as missing. Manifests contain no
timestamps, so rerunning a stage on the same input gives the same manifest. The other tables of the corpus (measures,
verdicts, duplicates) also consist of a Parquet file and a manifest. `TableWriter` streams a table, and `write_table`
writes a table that is in memory.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bloomery
from bloomery.base.atomic import atomic_path, read_json
from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError
from bloomery.base.self_digest import write_with_own_digest
from bloomery.base.unreadable import parquet_cause

DOCUMENT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("text", pa.large_string()),
        ("meta", pa.string()),
    ]
)
"""Columns of a shard of documents. `meta` is a JSON object as text, or an empty string without metadata."""

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 32 << 20
"""Limits of a row group, which ends at the first limit that is reached. Reading and writing therefore hold about 32 MiB
of text in memory, whatever the size of the shard."""


def manifest_path(table: Path) -> Path:
    """Return the path of the manifest beside a table: `00000.parquet` -> `00000.json`."""
    return table.with_suffix(".json")


class TableWriter:
    """Write a table batch by batch, then its manifest. Both files are written atomically.

    If the body of `with` fails, no file is written. Row groups depend only on the rows and not on the batches, so the
    same rows always give the same bytes.
    """

    def __init__(self, path: Path, schema: pa.Schema, file: pq.ParquetWriter, group_bytes: int) -> None:
        """Use `open` instead of calling this directly."""
        self.path = path
        self.rows = 0
        self._schema = schema
        self._file = file
        self._group_bytes = group_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        # Columns with long values, whose sizes determine where a row group ends.
        kinds = (pa.types.is_large_string, pa.types.is_large_binary)
        self._sized = [number for number, field in enumerate(schema) if any(kind(field.type) for kind in kinds)]

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, schema: pa.Schema, *, group_bytes: int = ROW_GROUP_BYTES) -> Iterator[TableWriter]:
        """Open a writer for the `.parquet` file `path`. The file appears under its name when the `with` block ends.

        A row group ends after `ROW_GROUP_ROWS` rows, or after the row with which it reaches `group_bytes` of text.
        """
        options: dict[str, Any] = {"compression": "zstd", "write_statistics": False, "write_page_checksum": True}
        with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, **options) as file:
            writer = cls(path, schema, file, group_bytes)
            yield writer
            writer.end_group()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in their final order."""
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            self._add(batch)
        self.rows += rows.num_rows

    def _add(self, batch: pa.RecordBatch) -> None:
        sizes = np.zeros(batch.num_rows, np.int64)
        for column in self._sized:
            sizes += np.asarray(pc.fill_null(pc.binary_length(batch.column(column)), 0), np.int64)
        ends = np.cumsum(sizes)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            room = self._group_bytes - self._pending_bytes
            full = int(np.searchsorted(ends, before + room)) + 1  # end of the row that fills the group
            end = min(full, start + ROW_GROUP_ROWS - self._pending_rows, batch.num_rows)
            self._pending.append(batch.slice(start, end - start))
            self._pending_rows += end - start
            self._pending_bytes += int(ends[end - 1]) - before
            if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= self._group_bytes:
                self.end_group()
            start = end

    def end_group(self) -> None:
        """End the row group, so that the following rows can be read separately from the previous rows."""
        if not self._pending:
            return
        # Combine the chunks, so that the Parquet pages do not depend on the batches.
        table = pa.Table.from_batches(self._pending, schema=self._schema).combine_chunks()
        self._file.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def manifest(
        self, *, kind: str, inputs: Mapping[str, str], parameters: str, counts: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Write the manifest and return it. Call this after the `with` block.

        Args:
            kind: kind of the table (`documents`, `measures`, ...).
            inputs: digest of each input, by file name or role.
            parameters: digest of the stage's section of the configuration.
            counts: additional content of the manifest, as JSON values without timestamps.
        """
        value: dict[str, Any] = {
            "kind": kind,
            "version": bloomery.__version__,
            "inputs": dict(inputs),
            "parameters": parameters,
            "rows": self.rows,
            "file": {"name": self.path.name, "bytes": self.path.stat().st_size, "digest": digest_file(self.path)},
            "counts": dict(counts or {}),
        }
        write_with_own_digest(manifest_path(self.path), value)
        return value


def write_table(
    path: Path,
    table: pa.Table,
    *,
    kind: str,
    inputs: Mapping[str, str],
    parameters: str,
    counts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a table that is in memory and its manifest, and return the manifest. See `TableWriter`."""
    with TableWriter.open(path, table.schema) as writer:
        writer.write(table)
    return writer.manifest(kind=kind, inputs=inputs, parameters=parameters, counts=counts)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a table.

    Raises InputError if the manifest or the table is missing, or if the manifest is damaged or records another size.
    """
    manifest: dict[str, Any] = read_json(manifest_path(path))
    try:
        told_bytes = manifest["file"]["bytes"]
        _ = manifest["file"]["digest"], manifest["rows"], manifest["counts"]
        if type(manifest["rows"]) is not int or manifest["rows"] < 0 or not isinstance(manifest["counts"], dict):
            raise TypeError
    except (KeyError, TypeError) as error:
        raise InputError(
            "this is not the manifest of a table: it lacks `rows`, `counts`, or the size and digest of the table's "
            "file",
            where=str(manifest_path(path)),
            expected=f"a manifest of {path.name}. Delete both files, then run the command or the workflow again that "
            "writes them",
        ) from error
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise InputError(
            "no such file, although its manifest exists",
            where=str(path),
            expected=f"the table that {manifest_path(path).name} describes. Delete this manifest, then run the "
            "command or the workflow again that writes the table",
        ) from error
    if size != told_bytes:
        what = f"the file has {size} bytes, but its manifest records {told_bytes} bytes"
        raise InputError(what, where=str(path), expected=_AGAIN)
    return manifest


_AGAIN = (
    "an undamaged table. Delete this file and its manifest (the .json file beside it), then run the command or the "
    "workflow again that writes them"
)


def check_table(path: Path) -> dict[str, Any]:
    """Check the content of a table against the digest in its manifest, and return the manifest.

    This costs one more sequential read of the file per process (BLAKE2b, about 1 GB/s on one core). Without
    this check, a stage could read a damaged table and write wrong results without an error message.

    Raises InputError if the table is missing or damaged.
    """
    manifest = read_manifest(path)
    state = path.stat()
    if _digest_of(path, state.st_ino, state.st_size, state.st_mtime_ns) != manifest["file"]["digest"]:
        what = "the file is damaged: its content does not match the digest in its manifest"
        raise InputError(what, where=str(path), expected=_AGAIN)
    return manifest


@functools.lru_cache(maxsize=65_536)
def _digest_of(path: Path, *_state: int) -> str:
    """Return the digest of a file. The result is cached for its state (inode, bytes, modification time)."""
    return digest_file(path)


@contextlib.contextmanager
def open_table(path: Path, *, dictionary: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a table to read some of its row groups or columns. Columns in `dictionary` are read dictionary-encoded.

    Computing the digest of the whole file would take longer than reading a part of it. Instead, the checksum of each
    page that is read is verified.

    Raises:
        InputError: if the table is missing, truncated or damaged. It can also be raised while the caller reads.
    """
    read_manifest(path)
    try:
        # With Arrow's default pre_buffer=True, every page that has been read would stay in memory.
        with pq.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, read_dictionary=list(dictionary)
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read ({parquet_cause(error)})", where=str(path), expected=_AGAIN) from error


def check_columns(path: Path, found: Sequence[str], schema: pa.Schema, *, delete: str) -> None:
    """Raise InputError for a table of an earlier version of Bloomery, which lacks a column of this version.

    Arrow's batch readers silently skip unknown column names, so the names are compared here.

    Args:
        path: path of the table, for the error message.
        found: names of the table's columns.
        schema: columns that this version writes.
        delete: files that the user must delete so that the workflow writes them again, for the error message.

    Raises:
        InputError: if a column of `schema` is missing.
    """
    missing = [name for name in schema.names if name not in found]
    if missing:
        raise InputError(
            f"the table was written by an earlier version of Bloomery: it has no column {', '.join(missing)}",
            where=str(path),
            expected=f"a table of this version. Delete {delete} and run the workflow again, with all later stages",
        )


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table after checking its manifest and digest.

    Raises InputError if the table is missing, truncated or damaged.
    """
    check_table(path)
    with open_table(path) as file:
        return file.read(columns=columns)


def iterate_batches(path: Path, columns: list[str] | None = None, rows: int = 2048) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in order, in batches of at most `rows` rows. Raises InputError like `read_table`."""
    check_table(path)
    with open_table(path) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)


def iterate_span(path: Path, start: int, end: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield rows `start` to `end` (excluded), one table per row group. Other row groups are not read.

    Raises InputError like `open_table`.
    """
    with open_table(path) as file:
        begin = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            first, last = max(start - begin, 0), min(end - begin, size)
            if first < last:
                yield file.read_row_group(group, columns=columns).slice(first, last - first)
            begin += size


def read_span(path: Path, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
    """Return rows `start` to `end` (excluded) as one table. See `iterate_span`."""
    with open_table(path) as file:
        schema = file.schema_arrow
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    return pa.concat_tables([schema.empty_table(), *iterate_span(path, start, end, columns)])


def read_rows(path: Path, rows: npt.NDArray[np.int64], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose numbers are in `rows`, which is sorted. Each row group that holds such rows gives one batch.

    Raises InputError like `open_table`.
    """
    with open_table(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + size)] - start
            if len(inside):
                table = file.read_row_group(group, columns=columns).take(pa.array(inside))
                yield from table.combine_chunks().to_batches()
            start += size
