"""The shard: Parquet of `id, source, language, text, meta` sorted by id, and a manifest beside it, written last.

A shard without its manifest does not exist. Manifests hold no clock times, so equal work gives equal bytes. The same
two files carry the other tables of the corpus (measures, verdicts, duplicates): `write_table` is for all of them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
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


def manifest_path(table: Path) -> Path:
    """The manifest beside a table: `00000.parquet` -> `00000.json`."""
    return table.with_suffix(".json")


def write_table(
    path: Path,
    table: pa.Table,
    *,
    kind: str,
    inputs: Mapping[str, str],
    parameters: str,
    counts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write `table` and then its manifest, each atomically; returns the manifest.

    Args:
        path: the `.parquet` file.
        table: rows in their final order.
        kind: what the table is (`documents`, `measures`, ...).
        inputs: digest per input (file name or role).
        parameters: digest of the stage's part of the configuration.
        counts: further facts of the manifest, JSON values without clock times.
    """
    with atomic_path(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            row_group_size=ROW_GROUP_ROWS,
            write_statistics=False,
            write_page_checksum=True,
        )
    manifest: dict[str, Any] = {
        "kind": kind,
        "version": bloomery.__version__,
        "inputs": dict(inputs),
        "parameters": parameters,
        "rows": table.num_rows,
        "file": {"name": path.name, "bytes": path.stat().st_size, "digest": digest_file(path)},
        "counts": dict(counts or {}),
    }
    write_json(manifest_path(path), manifest)
    return manifest


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
def open_table(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a table to read a few of its row groups.

    Its whole digest would cost more than what is read, so the checksum of each page that is read is checked instead.

    Raises:
        InputError: missing, cut or damaged, also while the caller reads.
    """
    read_manifest(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet ({error})", where=str(path), expected=_AGAIN) from error


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
