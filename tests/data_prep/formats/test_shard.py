"""Test the tables: an incomplete table is refused, and the error of every reader names a damaged table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bloomery.base.errors import InputError
from data_prep.formats.shard import (
    DOCUMENT_SCHEMA,
    TableWriter,
    iterate_batches,
    manifest_path,
    open_table,
    read_table,
    write_table,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000.parquet"
    table = pa.table({"n": list(range(50_000)), "word": [f"word {n}" for n in range(50_000)]})
    write_table(path, table, kind="t", inputs={}, parameters="")
    return path


def read_groups(path: Path) -> pa.Table:
    with open_table(path) as file:
        return file.read_row_groups(list(range(file.num_row_groups)))


READERS: list[Callable[[Path], Any]] = [read_table, lambda path: list(iterate_batches(path)), read_groups]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_every_reader_finds_a_flipped_byte(path: Path, read: Callable[[Path], Any], place: float) -> None:
    read(path)
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=str(path)):
        read(path)


@pytest.mark.parametrize("read", READERS)
def test_the_error_names_a_table_that_was_overwritten_with_zeros(path: Path, read: Callable[[Path], Any]) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InputError, match=str(path)):
        read(path)


def test_the_error_names_an_invalid_manifest(path: Path) -> None:
    manifest_path(path).write_text('{"file": {}}')
    with pytest.raises(InputError, match=str(manifest_path(path))):
        read_table(path)


def test_an_error_of_the_caller_is_not_reported_as_a_damaged_table(path: Path) -> None:
    def use() -> None:
        for _ in iterate_batches(path):
            raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        use()


def documents(count: int) -> pa.Table:
    texts = [str(n) * (n % 97) for n in range(count)]
    columns = {"id": [f"{n:032x}" for n in range(count)], "source": ["s"] * count, "language": ["en"] * count}
    return pa.table(columns | {"text": texts, "meta": [""] * count}, schema=DOCUMENT_SCHEMA)


def test_the_bytes_of_a_streamed_table_do_not_depend_on_its_batches(tmp_path: Path) -> None:
    table = documents(40_000)
    found = set()
    for batch in (1, 999, 40_000):
        with TableWriter.open(tmp_path / f"{batch}.parquet", table.schema, group_bytes=100_000) as writer:
            for start in range(0, 40_000 if batch > 1 else 3000, batch):
                writer.write(table.slice(start, batch))
            if batch == 1:
                writer.write(table.slice(3000))
        assert writer.manifest(kind="documents", inputs={}, parameters="")["rows"] == 40_000
        found.add((tmp_path / f"{batch}.parquet").read_bytes())
    assert len(found) == 1
    with open_table(tmp_path / "999.parquet") as file:
        sizes = [sum(map(len, file.read_row_group(n)["text"].to_pylist())) for n in range(file.num_row_groups)]
    assert all(100_000 <= size < 100_000 + 97 * 5 for size in sizes[:-1]), "a group ends with the row that fills it"
    assert read_table(tmp_path / "999.parquet") == table


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        with TableWriter.open(tmp_path / "t.parquet", DOCUMENT_SCHEMA) as writer:
            writer.write(documents(10))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert list(tmp_path.iterdir()) == []
