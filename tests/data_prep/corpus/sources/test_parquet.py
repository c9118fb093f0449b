"""Test the reading of documents from the rows of Parquet files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import InputError
from bloomery.config.sources import ParquetSource
from data_prep.corpus.ingest import _meta
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources.parquet import read_parquet

LIMIT = 10_000


def parquet(path: Path, **source: Any) -> list[Row | BadRow]:
    return list(read_parquet(ParquetSource(name="s", kind="parquet", paths=["x"], **source), [str(path)], LIMIT))


def test_parquet_rows_have_keys_languages_and_meta(tmp_path: Path) -> None:
    table = pa.table({"text": ["one", None, "three"], "lang": ["en", "en", None], "year": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    one, two, three = parquet(tmp_path / "a.parquet", language_field="lang", language="fr")
    assert one == Row("a.parquet:1", "one", "en", {"year": 1})
    assert (type(two), two.reason) == (BadRow, "missing text")
    assert three == Row("a.parquet:3", "three", "fr", {"year": 3})


def test_invalid_utf8_in_a_parquet_file_loses_only_its_row(tmp_path: Path) -> None:
    raw = pa.array([b"good", b"b\xffd", b"also good"], pa.binary())
    text = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    one, two, three = parquet(tmp_path / "a.parquet", language="en")
    assert isinstance(one, Row)
    assert isinstance(three, Row)
    assert (type(two), two.reason, two.line) == (BadRow, "invalid UTF-8", 2)


def test_values_that_python_cannot_represent_become_text(tmp_path: Path) -> None:
    columns = {
        "text": ["a", "b"],
        "when": pa.array([10**14, 0], pa.timestamp("s")),
        "day": pa.array([10**9, 0], pa.date32()),
        "zone": pa.array([1, 2], pa.timestamp("s", tz="Europe/Nowhere")),
        "map": pa.array([[("k", float("nan"))], []], pa.map_(pa.string(), pa.float64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    one, two = parquet(tmp_path / "a.parquet", language="en")
    assert isinstance(one, Row)
    assert isinstance(two, Row)
    assert str(one.meta["day"]) == "1000000000 (date32[day])"
    assert str(two.meta["day"]) == "1970-01-01"
    fields = json.loads(_meta(one))["fields"]
    assert fields["map"] == [["k", None]]
    assert fields["when"].startswith("1000000000000000")


def test_a_damaged_parquet_file_is_a_bad_row_and_a_missing_column_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"] * 100}), path)
    with pytest.raises(InputError, match="no column 'body'"):
        parquet(path, text_field="body", language="en")
    path.write_bytes(path.read_bytes()[:-30])
    assert [row.reason for row in parquet(path, language="en")] == ["damaged file"]
    path.write_bytes(b"")
    assert [row.reason for row in parquet(path, language="en")] == ["empty file"]
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        parquet(path, language="en")
