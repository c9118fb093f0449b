"""Test the reading of JSON Lines, and every way in which a row can be bad."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard

from bloomery.config.sources import JsonlSource
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources.jsonl import read_jsonl

LIMIT = 2000


def read(path: Path, **source: Any) -> list[Row | BadRow]:
    source = {"language": "en", **source}
    return list(read_jsonl(JsonlSource(name="s", kind="jsonl", paths=["x"], **source), [str(path)], LIMIT))


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def good(number: int) -> bytes:
    return json.dumps({"text": f"text number {number}"}).encode()


BAD_LINES = {
    b'{"text": "cut': "invalid JSON",
    b"[1, 2]": "not an object",
    b'"just text"': "not an object",
    b'{"words": "none"}': "missing text",
    b'{"text": null}': "missing text",
    b'{"text": 7}': "text is not a string",
    b'{"text": ["a"]}': "text is not a string",
    b'{"text": ""}': "empty text",
    b'{"text": " \\n\\t"}': "empty text",
    b'{"text": "a\\u0000b"}': "NUL byte",
    b'{"text": "a\0b"}': "NUL byte",
    b'{"text": "a\xffb"}': "invalid UTF-8",
    b'{"text": "a\xed\xa0\x80b"}': "invalid UTF-8",
    b'{"text": "a\\ud800b"}': "lone surrogate",
    b'{"text": NaN}': "invalid JSON",
    b'{"text": "t", "n": ' + b"9" * 1900 + b"}": None,
    b'{"text": "t", "n": ' + b"[" * 1900 + b"}": "invalid JSON",
    b'{"text": "' + b"x" * 3000 + b'"}': "too long",
    b'{"text": "a", "lang": "e n"}': "invalid language",
    b'{"text": "a", "lang": 3}': "invalid language",
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.items(), ids=[str(reason) for reason in BAD_LINES.values()])
def test_a_bad_row_names_file_line_and_reason_and_other_rows_are_read(
    tmp_path: Path, line: bytes, reason: str | None
) -> None:
    path = write(tmp_path / "rows.jsonl", good(1), line, b"", good(4))
    rows = read(path, language_field="lang")
    first, *middle, last = rows
    assert isinstance(first, Row)
    assert isinstance(last, Row)
    assert (first.key, last.key) == ("rows.jsonl:1", "rows.jsonl:4")
    if reason is None:
        assert isinstance(middle[0], Row)
        return
    assert [(type(row), row.file, row.line, row.reason) for row in middle] == [(BadRow, "rows.jsonl", 2, reason)]
    assert middle[0].excerpt or reason == "empty text"
    assert len(middle[0].excerpt) <= 200


def test_key_language_and_meta_come_from_the_row(tmp_path: Path) -> None:
    row = {"body": "Bonjour", "lang": "fr", "key": 12, "url": "u", "score": 0.5}
    [found] = read(
        write(tmp_path / "a.jsonl", json.dumps(row).encode()), text_field="body", language_field="lang", id_field="key"
    )
    assert found == Row("12", "Bonjour", "fr", {"url": "u", "score": 0.5})


@pytest.mark.parametrize("identity", [None, "", True, 1.5, ["a"], "a\ud800"])
def test_a_row_without_a_usable_id_is_bad(tmp_path: Path, identity: Any) -> None:
    [found] = read(write(tmp_path / "a.jsonl", json.dumps({"text": "t", "id": identity}).encode()), id_field="id")
    assert isinstance(found, BadRow)
    assert found.reason == "missing id"


def test_the_file_name_can_give_the_language(tmp_path: Path) -> None:
    [yoruba] = read(write(tmp_path / "yo.part1.jsonl", good(1)), language=None)
    assert isinstance(yoruba, Row)
    assert yoruba.language == "yo"
    [unknown] = read(write(tmp_path / "stuff.jsonl", good(1)), language=None)
    assert isinstance(unknown, BadRow)
    assert unknown.reason == "no language"


def test_an_empty_file_is_one_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert read(tmp_path / "a.jsonl") == [BadRow("a.jsonl", None, "empty file")]


def test_a_byte_order_mark_and_windows_line_ends_are_not_part_of_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + good(1) + b"\r\n" + good(2) + b"\r\n")
    assert [type(row) for row in read(tmp_path / "a.jsonl")] == [Row, Row]


def compress(path: Path, data: bytes) -> bytes:
    return gzip.compress(data) if path.suffix == ".gz" else zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
class TestCompressed:
    def test_several_frames_or_members_are_read_as_one_stream(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(compress(path, good(1) + b"\n" + good(2)[:5]) + compress(path, good(2)[5:] + b"\n" + good(3)))
        assert [row.text for row in read(path)] == [f"text number {number}" for number in (1, 2, 3)]

    def test_rows_before_a_cut_are_read_and_the_cut_is_one_bad_row(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        whole = b"".join(compress(path, b"".join(good(n) + b"\n" for n in range(k, k + 50))) for k in (0, 50))
        path.write_bytes(whole[:-20])
        *rows, damage = read(path)
        assert len(rows) >= 50
        assert all(isinstance(row, Row) for row in rows)
        assert isinstance(damage, BadRow)
        assert (damage.reason, damage.line) == ("damaged file", len(rows) + 1)

    def test_bytes_that_are_not_compressed_are_one_bad_row(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"this is not compressed at all")
        [damage] = read(tmp_path / name)
        assert isinstance(damage, BadRow)
        assert damage.reason == "damaged file"

    def test_a_huge_line_is_skipped_in_bounded_memory(self, tmp_path: Path, name: str) -> None:
        import tracemalloc

        path = tmp_path / name
        path.write_bytes(compress(path, good(1) + b"\n" + b"x" * 80_000_000 + b"\n" + good(3) + b"\n"))
        tracemalloc.start()
        first, long, last = read(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(first, Row)
        assert isinstance(last, Row)
        assert isinstance(long, BadRow)
        assert (long.reason, long.line, last.key) == ("too long", 2, f"{name}:3")
        assert "80000001 bytes" in long.detail
        # The decompressor gets 2 KiB at a time, which can expand to 64 MiB in a zstd frame. gzip needs less memory.
        assert name.endswith(".zst") or peak < 16_000_000


@pytest.mark.parametrize("name", ["rows.jsonl.GZ", "ROWS.JSONL.ZST"])
def test_the_case_of_a_suffix_does_not_matter(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(compress(Path(name.lower()), good(1)))
    assert [row.text for row in read(tmp_path / name)] == ["text number 1"]


def test_a_null_text_is_not_a_missing_field(tmp_path: Path) -> None:
    [found] = read(write(tmp_path / "a.jsonl", b'{"text": null}'))
    assert found.detail == "field 'text' is null"


def test_file_names_that_are_not_utf8_become_printable(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/en\xff.jsonl"))
    first, second = read(write(path, good(1), b"{"))
    assert first.key == "en\\udcff.jsonl:1"
    assert second.file == "en\\udcff.jsonl"
