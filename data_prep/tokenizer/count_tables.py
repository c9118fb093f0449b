"""Count tables (language, piece, count), our own or made elsewhere: found, checked, and read batch by batch.

Our own have a manifest, which says how text was cut into pieces. Any Parquet file with the three columns will do as
well (pieces as text or bytes, plain or as a dictionary; counts as any integer), in any order.
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
from data_prep.formats.shard import check_table, manifest_path, open_table, read_manifest

COLUMNS = ["language", "piece", "count"]
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class CountTable:
    """A table, its name among its like, and the source that was counted."""

    path: Path
    name: str
    source: str

    @property
    def ours(self) -> bool:
        """Whether it has a manifest."""
        return manifest_path(self.path).is_file()


def find_tables(places: Sequence[Path], parts: Sequence[str] | None = None) -> list[CountTable]:
    """The tables in files or folders (at any depth), sorted by name; with `parts`, those of these parts in one folder.

    A table's source is the folder that it lies in. Raises InputError when there is none.
    """
    if parts is not None:
        if len(places) != 1:
            raise InputError(f"{len(places)} places with parts", where="--counts", expected="one folder")
        return [CountTable(places[0] / f"{part}.parquet", part, part.split("/")[0]) for part in parts]
    found = []
    for place in places:
        below = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
        for path in below:
            name = path.relative_to(place) if place.is_dir() else path
            found.append(CountTable(path, name.with_suffix("").as_posix(), path.absolute().parent.name))
    if not found:
        raise InputError("no count tables", where=", ".join(map(str, places)) or "--counts", expected="*.parquet")
    for told in ([table.name for table in found], [str(table.path.resolve()) for table in found]):
        twice = next((name for name, times in Counter(told).items() if times > 1), None)
        if twice is not None:
            raise InputError(f"{twice} is there twice", where="--counts", expected="each table once")
    return sorted(found, key=lambda table: table.name)


def pre_tokenizer_of(tables: Sequence[CountTable]) -> tuple[str, bool] | None:
    """Preset and split_digits by which the pieces were cut, as the manifests say; None where none says it.

    Raises InputError when they contradict each other, or are damaged.
    """
    known: tuple[str, bool] | None = None
    first = ""  # of those that say it
    foreign = [table for table in tables if table.path.is_file() and not table.ours]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        say(f"{foreign[0].path}{more}: without a manifest, so that nobody knows how its text was cut into pieces")
    for table in tables:
        told = read_manifest(table.path)["counts"].get("pre_tokenizer") if table.ours else None
        if told is None:
            continue
        try:
            found = (str(told["preset"]), bool(told["split_digits"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"no pre-tokenizer ({error!r})", where=str(manifest_path(table.path))) from error
        if known is not None and found != known:
            raise InputError(
                f"its pieces were cut by {described(found)}, those of {first} by {described(known)}",
                where=str(table.path),
                expected="counts of one pre-tokenizer",
            )
        known, first = found, first or table.name
    return known


def described(pre_tokenizer: tuple[str, bool]) -> str:
    """`bloom`, or `bloom with digits split`."""
    name, split_digits = pre_tokenizer
    return f"{name} with digits split" if split_digits else name


def read_batches(table: CountTable) -> Iterator[pa.RecordBatch]:
    """Language (string), piece (large_binary), count (int64, from 1 on), without nulls; rows that count 0 are left out.

    Raises InputError for a missing, damaged or wrong table.
    """
    where = str(table.path)
    with _opened(table) as file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise InputError(f"no column {missing[0]!r}", where=where, expected=", ".join(COLUMNS))
        if file.metadata.num_rows == 0 and not table.ours:
            raise InputError("has no rows", where=where, expected="counts")
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=COLUMNS):
            yield _checked(batch, where)


@contextlib.contextmanager
def _opened(table: CountTable) -> Iterator[pq.ParquetFile]:
    path = table.path
    if not path.is_file():
        raise InputError("no such file", where=str(path), expected="a count table (Parquet)")
    if table.ours:
        check_table(path)
        with open_table(path) as file:
            yield file
        return
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet ({error})", where=str(path), expected="a count table") from error


def _checked(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    columns = dict(zip(COLUMNS, (batch.column(name) for name in COLUMNS), strict=True))
    for name, column in columns.items():
        if column.null_count:
            raise InputError(f"{column.null_count} nulls in column {name!r}", where=where, expected="none")
    if not pa.types.is_integer(columns["count"].type):
        raise InputError(f"counts of type {columns['count'].type}", where=where, expected="integers")
    try:
        language, piece = _text(columns["language"], pa.string()), _text(columns["piece"], pa.large_binary())
        count = columns["count"].cast(pa.int64())
    except pa.ArrowException as error:
        raise InputError(str(error), where=where, expected="language, piece (text or bytes), count") from error
    least = pc.min(count).as_py() if len(count) else 0
    if least < 0:
        row = pc.index(count, least).as_py()
        raise InputError(f"count {least} of piece {piece[row].as_py()!r}", where=where, expected="counts from 0 on")
    made = pa.record_batch([language, piece, count], names=COLUMNS)
    return made.filter(pc.greater(count, 0)) if least == 0 else made


def _text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise pa.ArrowTypeError(f"text of type {column.type}")
    return column.cast(kind)
