"""Documents to read: a shard of ours, or any Parquet file that has the columns which are asked for.

A shard of ours is checked against its manifest. A file without one is taken as it is, with a word about it, so that the
tokenizer and the encoder are of use to somebody who has texts and no corpus of ours.
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
from data_prep.formats.shard import DOCUMENT_SCHEMA, check_table, iterate_batches, manifest_path, read_manifest

_BATCH_ROWS, _BATCH_BYTES = 2048, 32 << 20


@dataclass(frozen=True)
class Documents:
    """A table of documents that can be read; `rows` of them."""

    path: Path
    rows: int
    has_manifest: bool
    schema: pa.Schema
    """The columns that are read, with their types in `DOCUMENT_SCHEMA`."""

    def digest(self) -> str:
        """BLAKE2b-128 of the file. Raises InputError when its manifest says otherwise."""
        if self.has_manifest:
            return str(check_table(self.path)["file"]["digest"])
        return digest_file(self.path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The documents in order, columns `schema`, without nulls; some 32 MiB of text at a time.

        Raises:
            InputError: damaged, a null, or text that is not UTF-8.
        """
        row = 0
        names, types = self.schema.names, self.schema.types
        for batch in iterate_batches(self.path, names) if self.has_manifest else self._foreign():
            try:
                columns = [batch[name].cast(kind) for name, kind in zip(names, types, strict=True)]
                for column in columns:
                    column.validate(full=True)
            except pa.ArrowException as error:
                where = f"{self.path}, rows {row} to {row + batch.num_rows}"
                raise InputError(f"is not UTF-8 ({error})", where=where, expected=_expected(self.schema)) from error
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
            raise InputError(f"cannot be read as Parquet ({error})", where=str(self.path)) from error


def open_documents(path: Path, columns: tuple[str, ...]) -> Documents:
    """The documents in a file, of which `columns` are read; says on stderr when nothing tells whether it is complete.

    Raises:
        InputError: no such file, no Parquet, without the columns, or not what its manifest says.
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
        raise InputError(f"cannot be read as Parquet ({error})", where=str(path), expected=expected) from error
    for name in columns:
        found = [str(field.type) for field in schema if field.name == name]
        if len(found) != 1 or not _is_text(schema.field(name).type):
            what = f"has the columns {', '.join(f'{field.name} ({field.type})' for field in schema)}"
            raise InputError(what, where=str(path), expected=expected)
    if not has_manifest:
        say(f"warning: {path}: no manifest beside it, so nobody knows whether it is complete")
    return Documents(path, rows, has_manifest, wanted)


def _expected(schema: pa.Schema) -> str:
    *names, last = schema.names
    return f"a shard or another Parquet file with the string columns {', '.join(names)} and {last}"


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
