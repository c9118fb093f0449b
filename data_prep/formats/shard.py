"""The shard: Parquet of `id, source, language, text, meta` in its source's order; a manifest beside it, written last.

A shard without its manifest does not exist. Manifests hold no clock times, so equal work gives equal bytes. The same
two files carry the other tables of the corpus (measures, verdicts, duplicates): `TableWriter` streams any of them,
`write_table` is for those that are in memory anyway.
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
from bloomery.base.atomic import atomic_path, read_json, write_json
from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError

DOCUMENT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("text", pa.large_string()),
        ("meta", pa.string()),
    ]
)
"""Columns of a shard of documents. `meta` is a JSON object as text (empty string: none)."""

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 32 << 20
"""A row group ends at whichever comes first; so reading and writing hold some 32 MiB of text, whatever the shard."""


def manifest_path(table: Path) -> Path:
    """The manifest beside a table: `00000.parquet` -> `00000.json`."""
    return table.with_suffix(".json")


class TableWriter:
    """Writes a table batch by batch, then its manifest; each atomically, nothing when the body of `with` fails.

    Row groups follow the rows, not the batches: the same rows give the same bytes, however they are batched.
    """

    def __init__(self, path: Path, schema: pa.Schema, file: pq.ParquetWriter, group_bytes: int) -> None:
        """See `open`."""
        self.path = path
        self.rows = 0
        self._schema = schema
        self._file = file
        self._group_bytes = group_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        # The columns whose length differs from row to row enough to matter.
        kinds = (pa.types.is_large_string, pa.types.is_large_binary)
        self._sized = [number for number, field in enumerate(schema) if any(kind(field.type) for kind in kinds)]

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, schema: pa.Schema, *, group_bytes: int = ROW_GROUP_BYTES) -> Iterator[TableWriter]:
        """A writer for the `.parquet` file `path`, which has its name after `with`.

        A row group ends after `ROW_GROUP_ROWS` rows, or with the row that fills `group_bytes` of text.
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
            full = int(np.searchsorted(ends, before + room)) + 1  # behind the row that fills the group
            end = min(full, start + ROW_GROUP_ROWS - self._pending_rows, batch.num_rows)
            self._pending.append(batch.slice(start, end - start))
            self._pending_rows += end - start
            self._pending_bytes += int(ends[end - 1]) - before
            if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= self._group_bytes:
                self.end_group()
            start = end

    def end_group(self) -> None:
        """End the row group: what comes next can be read apart from what came before."""
        if not self._pending:
            return
        # Combined, so that the pages do not show how the rows came.
        table = pa.Table.from_batches(self._pending, schema=self._schema).combine_chunks()
        self._file.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def manifest(
        self, *, kind: str, inputs: Mapping[str, str], parameters: str, counts: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """After `with`: write the manifest and return it.

        Args:
            kind: what the table is (`documents`, `measures`, ...).
            inputs: digest per input (file name or role).
            parameters: digest of the stage's part of the configuration.
            counts: further facts of the manifest, JSON values without clock times.
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
        write_json(manifest_path(self.path), value)
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
    """Write a table that is in memory anyway, and its manifest, which is returned. See `TableWriter`."""
    with TableWriter.open(path, table.schema) as writer:
        writer.write(table)
    return writer.manifest(kind=kind, inputs=inputs, parameters=parameters, counts=counts)


def read_manifest(path: Path) -> dict[str, Any]:
    """Manifest of a table. Raises InputError when it is missing, damaged or speaks of another size."""
    manifest: dict[str, Any] = read_json(manifest_path(path))
    try:
        told_bytes = manifest["file"]["bytes"]
        _ = manifest["file"]["digest"], manifest["rows"], manifest["counts"]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"not the manifest of a table ({error!r})",
            where=str(manifest_path(path)),
            expected="delete it and its table and run the stage again",
        ) from error
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise InputError("no such file, though its manifest exists", where=str(path)) from error
    if size != told_bytes:
        raise InputError(f"has {size} bytes, its manifest says {told_bytes}", where=str(path), expected=_AGAIN)
    return manifest


_AGAIN = "delete both files and run the stage again"


def check_table(path: Path) -> dict[str, Any]:
    """The manifest of a table whose content has the manifest's digest.

    Costs one more sequential read of the file, BLAKE2b at about 1 GB/s on a core, once a process and file: a damaged
    table must not change what is decided from it without anybody noticing. Raises InputError.
    """
    manifest = read_manifest(path)
    state = path.stat()
    if _digest_of(path, state.st_ino, state.st_size, state.st_mtime_ns) != manifest["file"]["digest"]:
        raise InputError("its content is not what its manifest says: it is damaged", where=str(path), expected=_AGAIN)
    return manifest


@functools.lru_cache(maxsize=65_536)
def _digest_of(path: Path, *_state: int) -> str:
    """Digest of a file in a state (inode, bytes, time of its last change)."""
    return digest_file(path)


@contextlib.contextmanager
def open_table(path: Path, *, dictionary: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a table to read a few of its row groups or columns; those named in `dictionary` come dictionary-encoded.

    Its whole digest would cost more than what is read, so the checksum of each page that is read is checked instead.

    Raises:
        InputError: missing, cut or damaged, also while the caller reads.
    """
    read_manifest(path)
    try:
        # pre_buffer, arrow's default, would hold every page of the file that was read so far.
        with pq.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, read_dictionary=list(dictionary)
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet ({error})", where=str(path), expected=_AGAIN) from error


def check_columns(path: Path, found: Sequence[str], schema: pa.Schema, *, delete: str) -> None:
    """Refuse a table of an earlier version of Bloomery, in which a column had another name.

    Arrow's batch readers skip unknown column names silently, so the names are compared here.

    Args:
        path: the table.
        found: the names of its columns.
        schema: the columns that this version writes.
        delete: the files to delete, so that the workflow writes them again.

    Raises:
        InputError: a column of `schema` is missing.
    """
    missing = [name for name in schema.names if name not in found]
    if missing:
        raise InputError(
            f"was written by an earlier version: it has no column {', '.join(missing)}",
            where=str(path),
            expected=f"a table of this version; delete {delete} and run the workflow again, later stages included",
        )


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table whose manifest and digest hold. Raises InputError for a missing, cut or damaged one."""
    check_table(path)
    with open_table(path) as file:
        return file.read(columns=columns)


def iterate_batches(path: Path, columns: list[str] | None = None, rows: int = 2048) -> Iterator[pa.RecordBatch]:
    """Stream a table in order, in batches of at most `rows`, without holding all of it. Raises as `read_table`."""
    check_table(path)
    with open_table(path) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)


def iterate_span(path: Path, start: int, end: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Rows `start` to `end` (that one left out), a table a row group; others are not read. Raises as `open_table`."""
    with open_table(path) as file:
        begin = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            first, last = max(start - begin, 0), min(end - begin, size)
            if first < last:
                yield file.read_row_group(group, columns=columns).slice(first, last - first)
            begin += size


def read_span(path: Path, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
    """The rows of `iterate_span` as one table."""
    with open_table(path) as file:
        schema = file.schema_arrow
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    return pa.concat_tables([schema.empty_table(), *iterate_span(path, start, end, columns)])


def read_rows(path: Path, rows: npt.NDArray[np.int64], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches of the sorted rows `rows`, one a row group that holds any of them. Raises as `open_table`."""
    with open_table(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + size)] - start
            if len(inside):
                table = file.read_row_group(group, columns=columns).take(pa.array(inside))
                yield from table.combine_chunks().to_batches()
            start += size
