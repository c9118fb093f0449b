"""Test the messages that explain why a file cannot be read."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bloomery.base.unreadable import parquet_cause, why_unreadable


def _error(read: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the function must explain errors of every type)
        read()
    return caught.value


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda: json.loads(""), "not valid JSON: the text is empty (line 1, column 1)"),
        (lambda: json.loads('{"a": '), "not valid JSON: the text ends too early (line 1, column 7)"),
        (lambda: json.loads('{"a": "b'), "not valid JSON: the text ends too early (line 1, column 7)"),
        (
            lambda: json.loads('{"a" 1}'),
            "not valid JSON: a value, a comma, a colon or a quote is missing (line 1, column 6)",
        ),
        (
            lambda: json.loads("{}\n{}"),
            "not valid JSON: there is more text after the end of the value (line 2, column 1)",
        ),
        (lambda: json.loads('"a\nb"'), "not valid JSON: there is a line break or a control character inside quotes"),
        (
            lambda: tomllib.loads("a = 1\nb = \n"),
            "not valid TOML in line 2, column 5; expected: lines such as `key = 1`",
        ),
        (lambda: tomllib.loads("a = 1\na = 2"), "not valid TOML"),
        (lambda: b"ab\xff".decode(), "not UTF-8 text (invalid byte at position 2)"),
        (lambda: list(csv.reader(['"a'], strict=True)), "a quote that is not closed, or text after a closing quote"),
        (lambda: open("/nowhere/at/all"), "No such file or directory"),  # noqa: PTH123, SIM115
        (lambda: {}["x"], "the file is damaged or has the wrong format"),
    ],
)
def test_the_reason_is_one_plain_phrase(read: Callable[[], object], says: str) -> None:
    assert why_unreadable(_error(read)).startswith(says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not parquet, but long enough to have a footer", "not a Parquet file"),
        (b"PAR1 garbage PAR1", "a damaged Parquet file"),
        (b"", "not a Parquet file"),
    ],
)
def test_a_parquet_file_that_cannot_be_read_is_explained(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    error = _error(lambda: pq.ParquetFile(tmp_path / "a.parquet"))
    assert parquet_cause(error).startswith(says)


def test_an_error_of_the_disk_is_not_taken_for_a_damaged_parquet_file(tmp_path: Path) -> None:
    error = _error(lambda: pq.ParquetFile(tmp_path / "absent.parquet"))
    assert parquet_cause(error) == "No such file or directory"
