"""Find count tables (columns language, piece, count), check them, and read them batch by batch.

Tables that Bloomery wrote have a manifest, which records how text was split into pieces. Any other Parquet file with
the three columns is also accepted, with its rows in any order. Its pieces may be text or bytes, plain or
dictionary-encoded, and its counts may have any integer type.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.base.unreadable import parquet_cause
from data_prep.formats.shard import check_table, manifest_path, open_table, read_manifest

COLUMNS = ["language", "piece", "count"]
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class CountTable:
    """A count table: its path, its name, and the source whose text was counted."""

    path: Path
    name: str
    source: str

    @property
    def ours(self) -> bool:
        """Whether Bloomery wrote the table, that is, whether the table has a manifest."""
        return manifest_path(self.path).is_file()


def find_tables(places: Sequence[Path], parts: Sequence[str] | None = None) -> list[CountTable]:
    """Return the count tables in `places`, sorted by name.

    Args:
        places: files, or folders that are searched at any depth. With `parts`, exactly one folder.
        parts: parts of a run (`source/00000`). If given, return the tables of these parts, in the same order.

    The source of a table is the name of the table's folder. With `parts`, it is the part's name up to the first slash.

    Raises:
        InputError: if no table is found, if two tables have the same name or path, or if `parts` is given with
            several places.
    """
    if parts is not None:
        if len(places) != 1:
            raise InputError(
                f"--parts needs one folder of count tables, but --counts is given {len(places)} times",
                where="--counts",
                expected="the one folder that has the tables of these parts",
            )
        return [CountTable(places[0] / f"{part}.parquet", part, part.split("/")[0]) for part in parts]
    found = []
    for place in places:
        below = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
        for path in below:
            name = path.relative_to(place) if place.is_dir() else path
            found.append(CountTable(path, name.with_suffix("").as_posix(), path.absolute().parent.name))
    if not found:
        raise InputError(
            "there are no count tables",
            where=", ".join(map(str, places)) or "--counts",
            expected="Parquet files from `bloomery tokenizer count`",
        )
    for told in ([table.name for table in found], [str(table.path.resolve()) for table in found]):
        twice = next((name for name, times in Counter(told).items() if times > 1), None)
        if twice is not None:
            raise InputError(
                f"two count tables have the name or path {twice!r}",
                where="--counts",
                expected="each table once, and tables with different names",
            )
    return sorted(found, key=lambda table: table.name)


def pre_tokenizer_of(tables: Sequence[CountTable]) -> tuple[str, bool] | None:
    """Return the preset and `split_digits` with which the tables were counted, or None if no manifest records them.

    Raises:
        InputError: if manifests contradict each other or are damaged.
    """
    known: tuple[str, bool] | None = None
    first = ""  # name of the first table whose manifest records the pre-tokenizer
    foreign = [table for table in tables if table.path.is_file() and not table.ours]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        say(
            f"{foreign[0].path}{more}: without a manifest (the JSON file beside a count table), it is unknown which "
            "pre-tokenizer split the text. Bloomery assumes that it was the pre-tokenizer of the tokenizer"
        )
    for table in tables:
        told = read_manifest(table.path)["counts"].get("pre_tokenizer") if table.ours else None
        if told is None:
            continue
        try:
            found = (str(told["preset"]), bool(told["split_digits"]))
        except (KeyError, TypeError) as error:
            raise InputError(
                "the value of the key 'pre_tokenizer' is damaged",
                where=str(manifest_path(table.path)),
                expected="a value with the keys 'preset' and 'split_digits'; run `bloomery tokenizer count` again",
            ) from error
        if known is not None and found != known:
            raise InputError(
                f"this table was counted with the pre-tokenizer {described(found)}, but the table {first} was counted "
                f"with {described(known)}",
                where=str(table.path),
                expected="count tables that were made with the same pre-tokenizer; run `bloomery tokenizer count` "
                "again for the others",
            )
        known, first = found, first or table.name
    return known


def described(pre_tokenizer: tuple[str, bool]) -> str:
    """Return a description of a pre-tokenizer for messages: `'bloom'`, or `'bloom' with split_digits: true`."""
    name, split_digits = pre_tokenizer
    return f"{name!r} with split_digits: true" if split_digits else repr(name)


def read_batches(table: CountTable) -> Iterator[pa.RecordBatch]:
    """Yield batches of language (string), piece (large_binary) and count (int64, at least 1), without nulls.

    Rows with count 0 are dropped. Raises InputError if the table is missing or damaged, or if a column is missing or
    has a wrong type.
    """
    where = str(table.path)
    with _opened(table) as file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise InputError(f"no column {missing[0]!r}", where=where, expected=f"the columns {', '.join(COLUMNS)}")
        if file.metadata.num_rows == 0 and not table.ours:
            raise InputError("the table has no rows", where=where, expected="one row for each pre-token of a language")
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=COLUMNS):
            yield _checked(batch, where)


@contextlib.contextmanager
def _opened(table: CountTable) -> Iterator[pq.ParquetFile]:
    path = table.path
    if not path.is_file():
        raise InputError(
            "no such file", where=str(path), expected="a count table (Parquet file from `bloomery tokenizer count`)"
        )
    if table.ours:
        check_table(path)
        with open_table(path) as file:
            yield file
        return
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"the file cannot be read ({parquet_cause(error)})",
            where=str(path),
            expected="a count table, which is a Parquet file",
        ) from error


def _checked(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    columns = dict(zip(COLUMNS, (batch.column(name) for name in COLUMNS), strict=True))
    for name, column in columns.items():
        if column.null_count:
            raise InputError(
                f"{column.null_count} nulls in column {name!r}", where=where, expected="a value in every row"
            )
    if not pa.types.is_integer(columns["count"].type):
        raise InputError(
            f"the column 'count' has the type {columns['count'].type}", where=where, expected="an integer type"
        )
    language, piece = _text("language", columns, pa.string(), where), _text("piece", columns, pa.large_binary(), where)
    try:
        count = columns["count"].cast(pa.int64())
    except pa.ArrowException as error:
        raise InputError(
            "a count is too large or not a whole number", where=where, expected=f"counts of at most {2**63 - 1}"
        ) from error
    least = pc.min(count).as_py() if len(count) else 0
    if least < 0:
        row = pc.index(count, least).as_py()
        raise InputError(
            f"the count of the pre-token {piece[row].as_py()!r} is {least}",
            where=where,
            expected="counts of at least 0",
        )
    made = pa.record_batch([language, piece, count], names=COLUMNS)
    return made.filter(pc.greater(count, 0)) if least == 0 else made


def _text(name: str, columns: dict[str, pa.Array], kind: pa.DataType, where: str) -> pa.Array:
    column, expected = columns[name], f"text or bytes in the column {name!r}"
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InputError(f"the column {name!r} has the type {column.type}", where=where, expected=expected)
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        raise InputError(f"the column {name!r} holds text that is not UTF-8", where=where, expected=expected) from error
