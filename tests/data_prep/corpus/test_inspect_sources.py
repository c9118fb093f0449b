"""Test the reading of sources' first rows, and the counts of their fields, languages and ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from changed_sample import changed

from bloomery.checks.load_config import validate_config
from data_prep.corpus.inspect_sources import COLUMNS, SourceSample, inspect_sources, table_rows


def rows(path: Path, *values: Any) -> str:
    path.write_text("".join((v if isinstance(v, str) else json.dumps(v)) + "\n" for v in values), encoding="utf-8")
    return str(path)


def inspect(most: int = 1000, **keys: Any) -> SourceSample:
    config = validate_config(changed(sources=[{"name": "s", "kind": "jsonl", **keys}]))
    (sample,) = inspect_sources(config, most)
    return sample


def test_fields_languages_ids_and_sizes_are_counted(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "a.jsonl",
        {"text": "un", "lang": "fr", "id": 1},
        {"text": "moja", "lang": "sw", "id": 2, "url": None},
        {"text": "deux", "lang": "fr", "id": 1},
        "{",
    )
    sample = inspect(paths=[path], language_field="lang", id_field="id")
    assert (sample.rows, sample.complete, sample.repeated_ids) == (4, True, 1)
    assert sample.languages == {"fr": 2, "sw": 1}
    assert sample.language_bytes == {"fr": 6, "sw": 4}
    assert sample.fields == {"text": 3, "lang": 3, "id": 3}
    assert sample.bad == {"invalid JSON": 1}
    assert sample.first_bad is not None
    assert sample.first_bad.line == 4


def test_a_field_that_looks_present_only_inside_meta_is_not_a_field(tmp_path: Path) -> None:
    path = rows(tmp_path / "fr.jsonl", {"text": "un", "meta": {"lang": "fr"}})
    assert set(inspect(paths=[path]).fields) == {"text", "meta"}


def test_at_most_the_wanted_rows_are_read_and_every_file_gives_some(tmp_path: Path) -> None:
    for name in ("fr", "sw", "yo"):
        rows(tmp_path / f"{name}.jsonl", *({"text": f"{name} {n}"} for n in range(20)))
    sample = inspect(6, paths=[str(tmp_path / "*.jsonl")])
    assert (sample.rows, sample.complete) == (6, False)
    assert sample.languages == {"fr": 2, "sw": 2, "yo": 2}


def test_a_sample_is_complete_only_if_every_row_was_read(tmp_path: Path) -> None:
    rows(tmp_path / "fr.jsonl", *({"text": str(n)} for n in range(20)))
    rows(tmp_path / "sw.jsonl", {"text": "moja"})
    assert not inspect(20, paths=[str(tmp_path / "*.jsonl")]).complete
    assert inspect(42, paths=[str(tmp_path / "*.jsonl")]).complete


def test_a_sample_is_complete_after_max_documents_rows(tmp_path: Path) -> None:
    path = rows(tmp_path / "fr.jsonl", *({"text": str(n)} for n in range(20)))
    sample = inspect(paths=[path], max_documents=5)
    assert (sample.rows, sample.complete) == (5, True)


def test_a_parquet_file_without_the_column_is_an_error_of_the_sample(tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": ["un"]}), tmp_path / "fr.parquet")
    sample = inspect(kind="parquet", paths=[str(tmp_path / "fr.parquet")])
    assert sample.error is not None
    assert "has no column 'text'" in str(sample.error)
    whole = inspect(kind="parquet", paths=[str(tmp_path / "fr.parquet")], text_field="body")
    assert (whole.rows, whole.fields, whole.complete) == (1, {"body": 1}, True)


def test_the_table_has_a_cell_for_each_column(tmp_path: Path) -> None:
    (line,) = table_rows([inspect(paths=[rows(tmp_path / "fr.jsonl", {"text": "un"})])])
    assert len(line) == len(COLUMNS)
    assert line[0] == "s (jsonl)"
    assert "fr (1)" in line
