"""The shard: Parquet of `id, source, language, text, meta` sorted by id, and a manifest beside it, written last.

A shard without its manifest does not exist. Manifests hold no clock times, so equal work gives equal bytes. The same
two files carry the other tables of the corpus (measures, verdicts, duplicates): `write_table` is for all of them.
"""

from __future__ import annotations

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
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP_ROWS, write_statistics=False)
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
    """Manifest of a table. Raises InputError when it is missing or speaks of another size."""
    manifest: dict[str, Any] = read_json(manifest_path(path))
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise InputError("no such file, though its manifest exists", where=str(path)) from error
    if size != manifest["file"]["bytes"]:
        raise InputError(
            f"has {size} bytes, its manifest says {manifest['file']['bytes']}",
            where=str(path),
            expected="delete both files and run the stage again",
        )
    return manifest


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table whose manifest holds. Raises InputError for a missing, cut or damaged one."""
    read_manifest(path)
    try:
        return pq.read_table(path, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"not a readable Parquet file ({error})", where=str(path)) from error


def iterate_batches(path: Path, columns: list[str] | None = None, rows: int = 2048) -> Iterator[pa.RecordBatch]:
    """Stream a table in order, in batches of at most `rows`, without holding all of it."""
    read_manifest(path)
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)
