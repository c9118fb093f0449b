"""Test ingest: the order of documents, the count and the limit of bad rows, and that equal input gives a shard of equal
bytes."""

import json
from pathlib import Path

import pytest

from bloomery.base.digest import document_id
from bloomery.base.errors import InputError
from bloomery.config.corpus import IngestConfig
from bloomery.config.sources import JsonlSource
from bloomery.config.stages import IngestStage
from data_prep.corpus.ingest import ingest
from data_prep.formats.shard import DOCUMENT_SCHEMA, read_manifest, read_table


def stage(*files: Path, bad: float = 0.01, identity: str | None = "id") -> IngestStage:
    source = JsonlSource(
        name="s", kind="jsonl", paths=["x"], language="en", language_field="lang", id_field=identity, max_bad_share=bad
    )
    return IngestStage(source=source, part=0, files=[str(file) for file in files], ingest=IngestConfig())


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_shard_keeps_the_order_of_its_source_and_meta_holds_the_key_of_the_row(tmp_path: Path) -> None:
    rows = [{"id": f"k{n}", "text": f"text é {n}", "lang": "fr", "url": f"u{n}"} for n in range(50)]
    ingest(stage(write(tmp_path / "a.jsonl", *rows)), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    table = read_table(tmp_path / "0.parquet")
    assert table.schema.equals(DOCUMENT_SCHEMA)
    ids = table["id"].to_pylist()
    assert ids == [document_id("s", f"k{n}") for n in range(50)]
    meta = json.loads(table["meta"][3].as_py())
    assert document_id("s", meta["key"]) == ids[3]
    assert meta["fields"] == {"url": f"u{meta['key'][1:]}"}
    counts = read_manifest(tmp_path / "0.parquet")["counts"]
    assert counts["languages"] == {"fr": {"documents": 50, "bytes": sum(len(row["text"].encode()) for row in rows)}}


def test_bad_rows_are_listed_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", {"id": 1, "text": "good"}, "{", {"id": 2}, {"id": 3, "text": "\ud800 bad"})
    (tmp_path / "b.jsonl").write_bytes(b"")
    ingest(stage(file, tmp_path / "b.jsonl", bad=0.9), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    bad = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"], row["reason"]) for row in bad] == [
        ("a.jsonl", 2, "invalid JSON"),
        ("a.jsonl", 3, "missing text"),
        ("a.jsonl", 4, "lone surrogate"),
        ("b.jsonl", None, "empty file"),
    ]
    counts = read_manifest(tmp_path / "0.parquet")["counts"]
    assert (counts["documents"], counts["bad_rows"]) == (1, 4)
    assert counts["bad_reasons"] == {"invalid JSON": 1, "missing text": 1, "lone surrogate": 1, "empty file": 1}


@pytest.mark.parametrize("rows", [["{"] * 3 + [{"id": 1, "text": "t"}] * 97, ["{"] * 100])
def test_too_many_bad_rows_stop_the_source_and_are_listed_in_a_file(tmp_path: Path, rows: list[object]) -> None:
    output, quarantine = tmp_path / "0.parquet", tmp_path / "q.jsonl"
    with pytest.raises(InputError) as caught:
        ingest(stage(write(tmp_path / "a.jsonl", *rows), bad=0.02), output, quarantine)
    message = str(caught.value)
    assert "sources[s]" in message
    assert str(tmp_path / "q.failed.jsonl") in message
    assert "a.jsonl, line " in message
    if rows[-1] != "{":
        assert "3 of 100 rows are bad (3.00 %, but max_bad_share allows 2.00 %)" in message
    assert not output.exists()
    assert not quarantine.exists()
    assert (tmp_path / "q.failed.jsonl").read_text().count("\n") == rows.count("{")


def test_the_first_bad_row_of_an_empty_file_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    files = tmp_path / "a.jsonl", write(tmp_path / "b.jsonl", *["{"] * 100)
    with pytest.raises(InputError, match=r"first bad row: a\.jsonl: empty file; expected"):
        ingest(stage(*files), tmp_path / "0.parquet", tmp_path / "q.jsonl")


@pytest.mark.parametrize("rows", [[], ["{"], ["{"] + [{"id": 1, "text": "t"}] * 49])
def test_a_small_part_does_not_stop_the_source(tmp_path: Path, rows: list[object]) -> None:
    """The limit applies to the whole source: one bad row of 50 is 2 %, and an empty file is 100 % bad rows."""
    counts = ingest(stage(write(tmp_path / "a.jsonl", *rows)), tmp_path / "0.parquet", tmp_path / "q.jsonl")["counts"]
    assert (counts["bad_rows"], counts["max_bad_share"]) == (1, 0.01)
    table = read_table(tmp_path / "0.parquet")
    assert table.schema.equals(DOCUMENT_SCHEMA)
    assert table.num_rows == max(len(rows) - 1, 0)


def test_a_hostile_row_does_not_affect_other_rows(tmp_path: Path) -> None:
    deep = '{"text": "t", "m": ' + '{"a":' * 900 + "1e999" + "}" * 901
    (tmp_path / "a.jsonl").write_text(
        "\n".join(['{"\\ud800": 1}', deep, '{"\\ud800": "x", "text": "t", "n": {"\\udfff": 1}}'])
    )
    ingest(stage(tmp_path / "a.jsonl", identity=None), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    bad = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in bad] == [(1, "missing text"), (2, "too deep")]
    assert "\\ud800" in bad[0]["detail"]
    [meta] = read_table(tmp_path / "0.parquet")["meta"].to_pylist()
    assert json.loads(meta) == {"key": "a.jsonl:3", "fields": {"\ud800": "x", "n": {"\udfff": 1}}}


def test_the_limit_is_checked_after_1000_rows_and_not_only_at_the_end(tmp_path: Path) -> None:
    rows = [{"id": n, "text": "t"} for n in range(990)] + ["{"] * 500 + [{"id": n, "text": "t"} for n in range(10**5)]
    with pytest.raises(InputError, match=r"of 100\d rows are bad"):
        ingest(stage(write(tmp_path / "a.jsonl", *rows)), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    fine = [*rows[:990], *["{"] * 10, *rows[1490:2490]]
    ingest(stage(write(tmp_path / "a.jsonl", *fine)), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    assert not (tmp_path / "q.failed.jsonl").exists()


def test_the_same_files_give_the_same_bytes_in_any_folder(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name
        (folder / "in").mkdir(parents=True)
        files = [write(folder / "in" / f"{n}.jsonl", *({"text": f"{n} {m}"} for m in range(9))) for n in "ab"]
        ingest(stage(*files, identity=None), folder / "0.parquet", folder / "q.jsonl")
        found.append([(folder / file).read_bytes() for file in ("0.parquet", "0.json", "q.jsonl")])
    assert found[0] == found[1]


def test_meta_is_valid_json_for_any_row(tmp_path: Path) -> None:
    rows = ['{"id": 1, "text": "t", "n": 1e999, "s": "\\ud800"}', '{"id": 2, "text": "t", "meta": {"a": 1}}']
    ingest(stage(write(tmp_path / "a.jsonl", *rows)), tmp_path / "0.parquet", tmp_path / "q.jsonl")
    metas = {
        meta["key"]: meta["fields"] for meta in map(json.loads, read_table(tmp_path / "0.parquet")["meta"].to_pylist())
    }
    assert metas["1"]["n"] is None
    assert metas["2"] == {"a": 1}
