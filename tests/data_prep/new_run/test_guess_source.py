"""Test what is guessed about a source from its path: the kind, the files and the fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import InputError
from data_prep.new_run.guess_source import guess_source, kind_of, named_languages, patterns_of, states_language


def write(path: Path, *values: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl.zst", "jsonl"),
        ("fr.web.json.gz", "jsonl"),
        ("part-0.parquet", "parquet"),
        ("notes.TXT", "text"),
        ("crawl.warc.gz", "warc"),
        ("script.py", None),
        ("jsonl", None),
    ],
)
def test_the_name_of_a_file_tells_its_kind(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_a_folder_becomes_the_patterns_of_its_most_frequent_kind(tmp_path: Path) -> None:
    for name in ("a/fr.jsonl", "a/sw.jsonl", "yo.jsonl.gz", "readme.txt", "make.py"):
        write(tmp_path / name)
    assert patterns_of(str(tmp_path)) == [f"{tmp_path}/**/*.jsonl", f"{tmp_path}/**/*.jsonl.gz"]


def test_a_path_is_absolute_in_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "fr.jsonl")
    monkeypatch.chdir(tmp_path)
    assert patterns_of("*.jsonl") == [str(tmp_path / "*.jsonl")]


@pytest.mark.parametrize("path", ["absent.jsonl", "*.parquet", "empty"])
def test_a_path_without_a_file_of_a_known_kind_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a file, a pattern in quotes or a folder"):
        patterns_of(str(tmp_path / path))


def test_fields_are_found_by_name_and_content(tmp_path: Path) -> None:
    rows = [{"title": "t", "content": f"le texte {n}", "language": "fr", "doc_id": n, "url": "u"} for n in range(3)]
    keys, sample = guess_source(str(write(tmp_path / "a.jsonl", *rows)), "s")
    assert keys == {
        "name": "s",
        "kind": "jsonl",
        "paths": [str(tmp_path / "a.jsonl")],
        "text_field": "content",
        "language_field": "language",
        "id_field": "doc_id",
    }
    assert sample.languages == {"fr": 3}


def test_without_a_known_name_the_longest_strings_are_the_text(tmp_path: Path) -> None:
    rows = [{"a": "x", "story": "une longue histoire", "n": 1}] * 2
    keys, sample = guess_source(str(write(tmp_path / "a.jsonl", *rows)), "s")
    assert keys["text_field"] == "story"
    assert "language_field" not in keys
    assert not states_language(sample)


def test_an_id_that_repeats_is_not_used(tmp_path: Path) -> None:
    rows = [{"text": "un", "id": 1}, {"text": "deux", "id": 1}]
    keys, _ = guess_source(str(write(tmp_path / "fr.jsonl", *rows)), "s")
    assert "id_field" not in keys


def test_rows_without_strings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no field with text"):
        guess_source(str(write(tmp_path / "a.jsonl", {"tokens": [1, 2]})), "s")


def test_parquet_is_read_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": ["un", "deux"], "lang": ["fr", "fr"]}), tmp_path / "a.parquet")
    keys, sample = guess_source(str(tmp_path / "a.parquet"), "s")
    assert (keys["kind"], keys["text_field"], keys["language_field"]) == ("parquet", "body", "lang")
    assert sample.languages == {"fr": 2}


def test_files_of_languages_are_known_only_if_every_name_begins_with_a_code(tmp_path: Path) -> None:
    for name in ("fr.jsonl", "sw.web.jsonl"):
        write(tmp_path / name, {"text": "x"})
    _, sample = guess_source(str(tmp_path), "s")
    assert named_languages(sample) == {"fr": [f"{tmp_path}/fr.jsonl"], "sw": [f"{tmp_path}/sw.web.jsonl"]}
    write(tmp_path / "other.jsonl", {"text": "x"})
    _, sample = guess_source(str(tmp_path), "s")
    assert named_languages(sample) == {}
