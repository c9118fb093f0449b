"""Test parity by content, from aligned lines in files or from parallel documents."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bloomery.base.digest import document_id
from bloomery.base.errors import InputError
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table
from data_prep.tokenizer.report.parallel_text import parallel_documents, parities, read_parallel
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer

# If `ab` is a token, en has 1 + 2 tokens and fr has 3 + 2.
LINES = {"en": ["ab", "xy"], "fr": ["é.", "ab."], "hi": ["", "कa"]}
EXPECTED = {
    "en": {"parity": 1.0, "parity_rows": 2},
    "fr": {"parity": round(5 / 3, 4), "parity_rows": 2},
    "hi": {"parity": 2.0, "parity_rows": 1},
}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "aligned"
    path.mkdir()
    for code, lines in LINES.items():
        (path / f"{code}.txt").write_text("\n".join(lines) + "\n")
    return path


def test_a_folder_of_lines_and_a_file_of_rows_give_the_same_parities(plant, folder, tmp_path):
    subject = ReportedTokenizer.load(plant(["ab"]))
    assert parities(subject, read_parallel(folder), "en") == EXPECTED
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "\n".join(
            json.dumps(dict(zip(LINES, texts, strict=True)) | {"id": 7}) for texts in zip(*LINES.values(), strict=True)
        )
    )
    assert parities(subject, read_parallel(rows), "en") == EXPECTED
    assert parities(subject, read_parallel(rows), "de") == {}


def test_the_report_states_the_basis_of_parity(plant, make_shard, report, folder):
    make_shard("s/00000", {"en": ["ab"], "fr": ["ab"], "sw": ["ab"]})
    found = report(plant(["ab"]), settings={"parallel": str(folder)})
    assert found["parity_by"] == "content"
    assert {code: found["languages"][code]["parity"] for code in ("en", "fr", "sw")} == {
        "en": 1.0, "fr": EXPECTED["fr"]["parity"], "sw": None,
    }  # fmt: skip


def test_bytes_are_compared_if_the_aligned_text_lacks_the_reference(plant, make_shard, report, folder, capsys):
    (folder / "en.txt").unlink()
    make_shard("s/00000", {"en": ["ab"], "fr": ["ab"]})
    assert report(plant(["ab"]), settings={"parallel": str(folder)})["parity_by"] == "bytes"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", "{", "not valid JSON"),
        ("x.jsonl", "[1]", "not a JSON object"),
        ("x.jsonl", "", "no aligned text"),
        ("d/en.txt", "a\nb\n", "different numbers of lines"),
        ("none", None, "no such file"),
    ],
)
def test_text_that_is_not_aligned_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    if name.startswith("d/"):
        path = path.parent
        (path / "fr.txt").write_text("a\n")
    with pytest.raises(InputError, match=message):
        read_parallel(path)


def test_parallel_documents_are_grouped(tmp_path):
    def rows(part, *documents):
        found = sorted(
            (
                document_id("u", f"{language}{text}"),
                "u",
                language,
                text,
                json.dumps({"fields": {"parallel": key}}) if key else "",
            )
            for language, key, text in documents
        )
        path = tmp_path / f"{part}.parquet"
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*found, strict=True), DOCUMENT_SCHEMA, strict=True)
        ]
        write_table(path, pa.table(arrays, schema=DOCUMENT_SCHEMA), kind="documents", inputs={}, parameters="")
        return path

    shards = {
        "u/00000": rows("0", ("en", "1-3", "one"), ("fr", "1-3", "un"), ("en", None, "alone")),
        "u/00001": rows("1", ("hi", "1-3", "एक"), ("fr", "4-6", "quatre")),
        "v/00000": rows("2", ("es", "1-3", "uno")),
    }
    assert parallel_documents(shards, "u") == [{"en": "one", "fr": "un", "hi": "एक"}, {"fr": "quatre"}]
    with pytest.raises(InputError, match="no document has the field `parallel`"):
        parallel_documents({"w/00000": rows("3", ("en", None, "x"))}, "w")
