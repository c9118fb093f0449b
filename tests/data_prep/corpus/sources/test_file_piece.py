"""Test that a file gives the same rows whether it is read whole or in any number of pieces."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from repository import ROOT

from bloomery.config.corpus import IngestConfig
from bloomery.config.part_input import FilePiece
from bloomery.config.sources import JsonlSource, ParquetSource, Source, TextSource
from bloomery.config.stages import IngestStage
from data_prep.corpus.ingest import ingest
from data_prep.corpus.rows import BadRow, Item, Row
from data_prep.corpus.sources import read_source

LIMITS = IngestConfig(shard_bytes=2048, max_document_bytes=1024)
JSONL = JsonlSource(name="s", kind="jsonl", paths=["x"], language="en")
LINES = TextSource(name="s", kind="text", paths=["x"], language="en", documents="line")
COUNTS = [2, 3, 7, 40]


def read(source: Source, path: Path, piece: FilePiece | None = None) -> list[Item]:
    return list(read_source(IngestStage(source=source, part=0, files=[str(path)], piece=piece, ingest=LIMITS)))


def pieces(source: Source, path: Path, of: int) -> list[list[Item]]:
    return [read(source, path, FilePiece(number=number, of=of)) for number in range(of)]


def joined(found: list[list[Item]]) -> list[Item]:
    return [item for piece in found for item in piece]


def words(count: int, seed: int = 0) -> str:
    """Return text that compresses badly, so that a compressed file takes many reads."""
    draw = random.Random(seed)
    return " ".join(f"{draw.getrandbits(64):x}" for _ in range(count))


def lines(end: str = "\n") -> bytes:
    """Return empty, blank, invalid and too long lines, and good ones of several lengths."""
    found = ["", "no json", json.dumps({"text": "x" * 2000}), "  ", json.dumps({"text": words(2)})]
    found += [json.dumps({"text": words(number % 60 + 1, number)}) for number in range(700)]
    found.insert(300, json.dumps({"text": words(3000)}))
    return end.join(found).encode() + end.encode()


def frames(data: bytes) -> list[bytes]:
    """Split the data into five slices, without regard to line ends."""
    size = len(data) // 5 + 1
    return [data[place : place + size] for place in range(0, len(data), size)]


def compress(name: str, data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    if name.endswith(".zst"):
        return b"".join(map(compressor.compress, frames(data))) if "frames" in name else compressor.compress(data)
    if name.endswith(".gz"):
        return b"".join(map(gzip.compress, frames(data))) + b"\0" * 700 if "frames" in name else gzip.compress(data)
    return data


NAMES = ["a.jsonl", "a.jsonl.gz", "frames.jsonl.gz", "a.jsonl.zst", "frames.jsonl.zst"]
DATA = {
    "LF": lines(),
    "CRLF": lines("\r\n"),
    "no line end": lines().rstrip(b"\n"),
    "BOM": b"\xef\xbb\xbf" + json.dumps({"text": "first"}).encode() + b"\n" + lines(),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", DATA)
def test_pieces_of_a_jsonl_file_add_up_to_the_file(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(name, DATA[kind]))
    whole = read(JSONL, path)
    assert {item.reason for item in whole if isinstance(item, BadRow)} == {"invalid JSON", "too long"}
    for of in COUNTS:
        found = pieces(JSONL, path, of)
        assert joined(found) == whole
        assert sum(bool(piece) for piece in found) > 1, "more than one piece must have rows"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_a_file_may_have_more_pieces_than_lines(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(name, b"one\n\ntwo\nthree"))
    whole = read(LINES, path)
    assert [item.key for item in whole if isinstance(item, Row)] == [f"{name}:1", f"{name}:3", f"{name}:4"]
    assert joined(pieces(LINES, path, path.stat().st_size)) == whole


def test_a_line_belongs_to_the_piece_in_which_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"aaa\nbbb\nccc\n")
    assert [[item.text for item in piece] for piece in pieces(LINES, path, 3)] == [["aaa"], ["bbb"], ["ccc"]]
    path.write_bytes(b"aaaa\nbb\nccc\n ")
    assert [[item.text for item in piece] for piece in pieces(LINES, path, 3)] == [["aaaa"], ["bb"], ["ccc"]]
    path.write_bytes(b"aaaaaaaaaa\nb")
    assert [[item.text for item in piece] for piece in pieces(LINES, path, 3)] == [["aaaaaaaaaa"], [], ["b"]]


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("harm", ["cut", "corrupt"])
def test_damage_is_reported_by_one_piece(tmp_path: Path, name: str, harm: str) -> None:
    path = tmp_path / name
    data = bytearray(compress(name, lines()).rstrip(b"\0"))
    if harm == "cut":
        data = data[: 2 * len(data) // 3]
    else:
        data[2 * len(data) // 3 : 2 * len(data) // 3 + 50] = b"\xff" * 50
    path.write_bytes(data)
    whole = read(JSONL, path)
    assert isinstance(whole[-1], BadRow)
    assert whole[-1].reason == "damaged file"
    assert len(whole) > 300
    for of in COUNTS:
        assert joined(pieces(JSONL, path, of)) == whole


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_content_is_one_bad_row(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(name, b""))
    whole = read(JSONL, path)
    assert [item.reason for item in whole if isinstance(item, BadRow)] == ["empty file"]
    assert joined(pieces(JSONL, path, 3)) == whole


@pytest.mark.parametrize("groups", [1, 4, 30])
def test_pieces_of_a_parquet_file_are_whole_row_groups(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [words(3, number) if number % 11 else "" for number in range(600)]})
    pq.write_table(table, path, row_group_size=600 // groups)
    source = ParquetSource(name="s", kind="parquet", paths=["x"], language="en")
    whole = read(source, path)
    assert len(whole) == 600
    for of in COUNTS:
        found = pieces(source, path, of)
        assert joined(found) == whole
        assert sum(bool(piece) for piece in found) == min(of, groups)


def test_damage_in_a_parquet_file_loses_only_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [words(3, number) for number in range(400)]})
    pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False)
    with pq.ParquetFile(path) as file:
        place = file.metadata.row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[place : place + 30] = b"\xff" * 30
    path.write_bytes(data)
    source = ParquetSource(name="s", kind="parquet", paths=["x"], language="en")
    whole = read(source, path)
    bad = [item for item in whole if isinstance(item, BadRow)]
    assert [(item.reason, item.line) for item in bad] == [("damaged file", 101)]
    assert whole[-1].key == "a.parquet:400"
    assert joined(pieces(source, path, 4)) == whole
    path.write_bytes(data[:-20])
    whole = read(source, path)
    assert [item.reason for item in whole if isinstance(item, BadRow)] == ["damaged file"]
    assert joined(pieces(source, path, 4)) == whole


def test_the_manifest_records_which_piece_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(json.dumps({"text": words(9, number)}).encode() for number in range(40)))
    found = []
    for number in range(3):
        piece = FilePiece(number=number, of=3)
        stage = IngestStage(source=JSONL, part=number, files=[str(path)], piece=piece, ingest=LIMITS)
        found.append(ingest(stage, tmp_path / f"{number}.parquet", tmp_path / f"{number}.jsonl"))
    assert sum(manifest["counts"]["documents"] for manifest in found) == 40
    assert found[1]["inputs"] == {"a.jsonl": f"{path.stat().st_size} bytes, piece 1 of 3"}
    assert len({manifest["parameters"] for manifest in found}) == 3


def test_the_size_of_shards_does_not_change_the_documents(corpus_run: Any) -> None:
    source = {
        "name": "sample",
        "kind": "jsonl",
        "paths": [f"{ROOT}/config/sample/[ef]*.jsonl"],
        "language_field": "language",
        "id_field": "id",
    }
    rows = {}
    for size in (3000, 1_000_000):
        run = corpus_run([source], ingest={"shard_bytes": size, "max_document_bytes": 3000})
        run.ingest()
        assert (len(run.parts) > 10) == (size == 3000)
        rows[size] = sorted(run.rows("raw"), key=lambda row: row["id"])
    assert rows[3000] == rows[1_000_000]
    assert len(rows[3000]) > 50
