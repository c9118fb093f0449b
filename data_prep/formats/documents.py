"""Read documents from a Bloomery shard, or from any Parquet file that has the required columns.

A shard is checked against its manifest. A file without a manifest is read with a warning, so that the tokenizer and the
encoder can also be used on texts without a Bloomery corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.base.unreadable import parquet_cause
from data_prep.formats.shard import DOCUMENT_SCHEMA, check_table, iterate_batches, manifest_path, read_manifest

_BATCH_ROWS, _BATCH_BYTES = 2048, 32 << 20


@dataclass(frozen=True)
class Documents:
    """A readable table of documents."""

    path: Path
    rows: int
    has_manifest: bool
    schema: pa.Schema
    """Columns to read, with their types in `DOCUMENT_SCHEMA`."""

    def digest(self) -> str:
        """Return the BLAKE2b-128 digest of the file. Raises InputError if it differs from the manifest's digest."""
        if self.has_manifest:
            return str(check_table(self.path)["file"]["digest"])
        return digest_file(self.path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the documents in order, with the columns `schema`, in batches of about 32 MiB of text.

        Raises:
            InputError: if the file is damaged, has a null, or has text that is not UTF-8.
        """
        row = 0
        names, types = self.schema.names, self.schema.types
        for batch in iterate_batches(self.path, names) if self.has_manifest else self._foreign():
            try:
                columns = [batch[name].cast(kind) for name, kind in zip(names, types, strict=True)]
                for column in columns:
                    column.validate(full=True)
            except pa.ArrowException as error:
                where = f"{self.path}, rows {row} to {row + batch.num_rows - 1}"
                right = f"valid UTF-8 in the columns {', '.join(names)}. Write the file again"
                raise InputError("a text is not UTF-8", where=where, expected=right) from error
            for name, column in zip(names, columns, strict=True):
                if column.null_count:
                    where = f"{self.path}, column {name}, row {row + column.is_null().index(True).as_py()}"
                    raise InputError("is null", where=where, expected="a string in every row")
            row += batch.num_rows
            yield pa.record_batch(columns, schema=self.schema)

    def _foreign(self) -> Iterator[pa.RecordBatch]:
        try:
            with pq.ParquetFile(self.path, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    about = file.metadata.row_group(group)
                    rows = max(1, min(_BATCH_ROWS, about.num_rows * _BATCH_BYTES // max(1, about.total_byte_size)))
                    yield from file.iter_batches(batch_size=rows, row_groups=[group], columns=self.schema.names)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"cannot be read ({parquet_cause(error)})",
                where=str(self.path),
                expected=_expected(self.schema),
            ) from error


def open_documents(path: Path, columns: tuple[str, ...]) -> Documents:
    """Open a file of documents, of which only `columns` are read. Warns on stderr if the file has no manifest.

    Raises:
        InputError: if the file does not exist, is not Parquet, lacks a column, or does not match its manifest.
    """
    wanted = pa.schema([DOCUMENT_SCHEMA.field(name) for name in columns])
    expected = _expected(wanted)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise InputError(what, where=str(path), expected=expected)
    has_manifest = path.suffix == ".parquet" and manifest_path(path).exists()
    if has_manifest:
        read_manifest(path)
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read ({parquet_cause(error)})", where=str(path), expected=expected) from error
    for name in columns:
        found = [str(field.type) for field in schema if field.name == name]
        if len(found) != 1 or not _is_text(schema.field(name).type):
            what = f"the file has the columns {', '.join(f'{field.name} ({field.type})' for field in schema)}"
            raise InputError(what, where=str(path), expected=expected)
    if not has_manifest:
        say(
            f"warning: {path}: no manifest beside it ({manifest_path(path).name}), so Bloomery cannot check whether "
            "the file is complete"
        )
    return Documents(path, rows, has_manifest, wanted)


def _expected(schema: pa.Schema) -> str:
    *names, last = schema.names
    return f"a shard or another Parquet file with the string columns {', '.join(names)} and {last}"


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
