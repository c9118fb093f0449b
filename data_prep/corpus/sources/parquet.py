"""Read Parquet files with a text column in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomery.base.errors import InputError
from bloomery.base.unreadable import parquet_cause
from bloomery.config.part_input import FilePiece
from bloomery.config.sources import ParquetSource
from data_prep.corpus.rows import BadRow, Fields, Item, Observe, name_of, row_from_fields

_BATCH_ROWS = 512


def read_parquet(
    source: ParquetSource,
    files: list[str],
    max_bytes: int,
    piece: FilePiece | None = None,
    observe: Observe | None = None,
) -> Iterator[Item]:
    """Yield the rows of Parquet files, or of a piece of each file. Rows are numbered from 1 in each file.

    Row group `i` of `r` belongs to piece `i * n // r` of `n`. A damaged row group gives one bad row, and so does a
    damaged file. `observe` is called with the fields of each row.

    Raises:
        InputError: a file does not exist or cannot be opened, or it lacks a configured column. A missing column is
            not a bad row, because it is a mistake in the configuration and not in the data.
    """
    fields = Fields(source.text_field, source.language_field, source.id_field, source.language, max_bytes, observe)
    number, of = (piece.number, piece.of) if piece else (0, 1)
    for path in files:
        name = name_of(path)
        try:
            if Path(path).stat().st_size == 0:
                yield BadRow(name, None, "empty file")
                continue
            with pq.ParquetFile(path, pre_buffer=False) as file:
                _require(file.schema_arrow.names, fields, path)
                if number == 0 and file.metadata.num_rows == 0:
                    yield BadRow(name, None, "empty file")
                line = 0
                for group in range(file.num_row_groups):
                    if group * of // file.num_row_groups == number:
                        yield from _group(file, group, line, fields, name)
                    line += file.metadata.row_group(group).num_rows
        except (FileNotFoundError, PermissionError) as error:
            raise InputError(
                f"cannot be read ({parquet_cause(error)})", where=path, expected="an existing file that you may read"
            ) from error
        except (pa.ArrowException, OSError) as error:
            if number == 0:
                yield BadRow(name, 1, "damaged file", parquet_cause(error))


def _group(file: pq.ParquetFile, group: int, line: int, fields: Fields, name: str) -> Iterator[Item]:
    """Yield the rows of a row group. `line` is the number of rows before it in the file."""
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
            for values in _rows(batch):
                line += 1
                if isinstance(values, str):
                    yield BadRow(name, line, "invalid UTF-8", values)
                else:
                    yield row_from_fields(values, fields, name, line)
    except (pa.ArrowException, OSError) as error:
        yield BadRow(
            name, line + 1, "damaged file", f"{parquet_cause(error)}; the rest of row group {group} is skipped"
        )


def _require(columns: list[str], fields: Fields, path: str) -> None:
    for role, column in (
        ("text_field", fields.text),
        ("language_field", fields.language),
        ("id_field", fields.identity),
    ):
        if column is not None and column not in columns:
            raise InputError(
                f"the file has no column {column!r} ({role})",
                where=path,
                expected=f"as {role} of the source, one of the columns {', '.join(columns)}",
            )


class _NotText(str):
    """Placeholder for a value that is not valid text. The string is the reason."""


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """Yield rows as dictionaries, or a message in place of a row whose bytes are not UTF-8."""
    columns = [_values(column) for column in batch.columns]
    for cells in zip(*columns, strict=True):
        fault = next((cell for cell in cells if isinstance(cell, _NotText)), None)
        yield dict(zip(batch.schema.names, cells, strict=True)) if fault is None else str(fault)


def _values(column: pa.Array) -> list[Any]:
    """Return the column's values. Values that Python cannot represent (a date in the year 300000) become text."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, KeyError, pa.ArrowException):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return _NotText(f"{error.reason} at byte {error.start} of a value in this row")
    except (ValueError, OverflowError, KeyError, pa.ArrowException):
        return f"{getattr(scalar, 'value', '?')} ({scalar.type})"
