"""Test the reading of documents from text files."""

from pathlib import Path

from bloomery.config.sources import TextSource
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources.text import read_text


def text(path: Path, documents: str) -> list[Row | BadRow]:
    source = TextSource(name="s", kind="text", paths=["x"], language="en", documents=documents)
    return list(read_text(source, [str(path)], 100))


def test_a_document_is_a_file_a_line_or_a_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n\r\n\r\nthree\r\n")
    assert [(row.key, row.text) for row in text(path, "file")] == [("a.txt:1", "one\ntwo\n\n\nthree")]
    assert [row.key for row in text(path, "line")] == ["a.txt:1", "a.txt:2", "a.txt:5"]
    assert [(row.key, row.text) for row in text(path, "paragraph")] == [("a.txt:1", "one\ntwo"), ("a.txt:5", "three")]


def test_only_the_document_beyond_the_limit_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"short\n\n" + b"long line\n" * 20 + b"\nshort\n\n" + b"x" * 300 + b"\nrest\n\nshort\n")
    found = text(path, "paragraph")
    assert [getattr(row, "reason", "good") for row in found] == ["good", "too long", "good", "too long", "good"]
    assert [row.reason for row in text(path, "file")] == ["too long"]


def test_invalid_bytes_make_only_their_paragraph_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\nb\xffd\n\nn\0l\n\ngood\n")
    reasons = [getattr(row, "reason", "good") for row in text(path, "paragraph")]
    assert reasons == ["good", "invalid UTF-8", "NUL byte", "good"]
