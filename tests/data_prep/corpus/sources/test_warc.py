"""Test the reading of web archives: which records become documents, and which are lost to damage."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zlib
from itertools import accumulate
from pathlib import Path

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from bloomery.config.corpus import IngestConfig
from bloomery.config.part_input import FilePiece
from bloomery.config.sources import WarcSource
from bloomery.config.stages import IngestStage
from bloomery.orchestration.plan_parts import plan_parts
from data_prep.corpus.rows import BadRow, Item, Row
from data_prep.corpus.sources import read_source

LIMITS = IngestConfig(shard_bytes=16384, max_document_bytes=8192)
SENTENCES = {
    "en": "The tide came in over the flats, and the boats that had lain on their sides rose one after another. ",
    "ru": "Прилив поднялся над отмелью, и лодки, лежавшие на боку, одна за другой поднялись на воду. ",
    "fr": "La marée recouvrit les vasières, et les bateaux échoués se relevèrent l’un après l’autre. ",
}


def page(text: str, head: str = "") -> str:
    menu = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/about'>About us</a></li></ul></nav>"
    return (
        f"<!DOCTYPE html><html><head><title>A page</title>{head}</head><body>{menu}<main><article><h1>A heading</h1>"
        f"<p>{text * 4}</p><p>{text * 3}</p></article></main><footer>All rights reserved.</footer></body></html>"
    )


class Archive:
    """Write records with consecutive numbers as ids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffer = io.BytesIO()
        self.writer = WARCWriter(self.buffer, gzip=path.suffix == ".gz")
        self.count = 0

    def record(self, kind: str, content_type: str, body: bytes, http: StatusAndHeaders | None = None) -> None:
        self.count += 1
        self.writer.write_record(
            self.writer.create_warc_record(
                f"http://example.org/{self.count}",
                kind,
                payload=io.BytesIO(body),
                http_headers=http,
                warc_content_type=content_type,
                warc_headers_dict={
                    "WARC-Record-ID": f"<urn:uuid:{self.count}>",
                    "WARC-Date": "2026-11-01T00:00:00Z",
                },
            )
        )

    def response(self, body: bytes, content_type: str = "text/html", status: str = "200 OK", **headers: str) -> None:
        named = [("Content-Type", content_type), *((name.replace("_", "-"), value) for name, value in headers.items())]
        http = StatusAndHeaders(status, named, protocol="HTTP/1.1")
        self.record("response", "application/http; msgtype=response", body, http)

    def save(self) -> Path:
        self.path.write_bytes(self.buffer.getvalue())
        return self.path


def read(path: Path, piece: FilePiece | None = None, **source: str) -> list[Item]:
    warc = WarcSource(name="web", kind="warc", paths=["x"], language="en", **source)
    return list(read_source(IngestStage(source=warc, part=0, files=[str(path)], piece=piece, ingest=LIMITS)))


def keys(items: list[Item]) -> list[str]:
    return [item.reason if isinstance(item, BadRow) else item.key for item in items]


@pytest.mark.parametrize("name", ["web.warc", "web.warc.gz"])
def test_successful_pages_become_documents_and_other_records_are_skipped(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(tmp_path / name)
    archive.record("warcinfo", "application/warc-fields", b"software: test\r\n")
    html = page(SENTENCES["en"]).encode()
    archive.record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    archive.response(html, "text/html; charset=utf-8")
    archive.response(html, status="404 Not Found")
    archive.response(b"\x89PNG" * 9000, "image/png")
    archive.response(b"<html><body></body></html>")
    archive.response(html, "application/xhtml+xml", status="203 Other")
    archive.record("metadata", "application/warc-fields", b"fetchTimeMs: 12\r\n")
    found = read(archive.save())
    assert keys(found) == ["urn:uuid:3", "urn:uuid:7"]
    first = found[0]
    assert isinstance(first, Row)
    assert first.meta == {"url": "http://example.org/3", "date": "2026-11-01T00:00:00Z", "type": "text/html"}
    assert first.text.count(SENTENCES["en"].strip()) == 7
    assert "Home" not in first.text
    assert "rights" not in first.text
    talk = capsys.readouterr().err
    assert f"{name}: 2 documents; skipped: 1 metadata records, 1 pages without text, 1 request records, " in talk
    assert "1 responses that are not HTML, 1 responses without status 2xx" in talk


def test_pages_are_decoded_even_if_their_charset_is_wrong_or_missing(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "web.warc.gz")
    archive.response(page(SENTENCES["ru"]).encode("cp1251"), "text/html; charset=windows-1251")
    archive.response(page(SENTENCES["ru"], '<meta charset="koi8-r">').encode("koi8-r"))
    archive.response(page(SENTENCES["fr"]).encode("cp1252"), "text/html; charset=ISO-8859-1")
    archive.response(page(SENTENCES["ru"]).encode(), "text/html; charset=iso-8859-1")
    archive.response(page(SENTENCES["ru"]).encode("cp1251"), "text/html; charset=nonsense")
    languages = ["ru", "ru", "fr", "ru", "ru"]
    for item, language in zip(read(archive.save()), languages, strict=True):
        assert isinstance(item, Row)
        assert item.text.count(SENTENCES[language].strip()) == 7, item.key


def test_bodies_are_decoded_as_their_headers_declare(tmp_path: Path) -> None:
    html = page(SENTENCES["en"]).encode()
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (html[:100], html[100:])) + b"0\r\n\r\n"
    archive = Archive(tmp_path / "web.warc")
    archive.response(gzip.compress(html), Content_Encoding="gzip")
    archive.response(chunked, Transfer_Encoding="chunked")
    archive.response(gzip.compress(page("x" * 4000).encode()), Content_Encoding="gzip")
    one, two, long = read(archive.save())
    assert isinstance(one, Row)
    assert isinstance(two, Row)
    assert one.text == two.text
    assert isinstance(long, BadRow)
    assert (long.reason, long.line) == ("too long", 3)


def test_the_text_of_wet_records_is_not_changed(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "crawl.warc.wet.gz")
    archive.record("warcinfo", "application/warc-fields", b"software: test\r\n")
    archive.record("conversion", "text/plain", SENTENCES["fr"].encode() + b"\nMenu")
    archive.record("conversion", "text/plain", b"b\xffd")
    archive.record("conversion", "text/plain", b"x" * 9000)
    archive.record("conversion", "text/plain", b" ")
    found = read(archive.save())
    assert keys(found) == ["urn:uuid:2", "invalid UTF-8", "too long", "empty text"]
    assert isinstance(found[0], Row)
    assert found[0].text == SENTENCES["fr"] + "\nMenu"
    assert [item.line for item in found[1:] if isinstance(item, BadRow)] == [3, 4, 5]


def crawl(path: Path, records: int = 40) -> Path:
    archive = Archive(path)
    for number in range(records):
        if number % 3 == 0:
            archive.record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n")
        archive.response(page(f"{number}: {SENTENCES['en']}", f"<!-- {bytes(range(number, 120)).hex()} -->").encode())
    return archive.save()


def single_member(data: bytes) -> bytes:
    """Compress the whole archive as one gzip member, as some tools do."""
    return gzip.compress(gzip.decompress(data))


@pytest.mark.parametrize("name", ["web.warc", "web.warc.gz", "whole.warc.gz"])
def test_pieces_of_an_archive_add_up_to_the_archive(tmp_path: Path, name: str) -> None:
    path = crawl(tmp_path / name)
    if name.startswith("whole"):
        path.write_bytes(single_member(path.read_bytes()))
    whole = read(path)
    assert len(whole) == 40
    for of in (2, 3, 7):
        found = [read(path, FilePiece(number=number, of=of)) for number in range(of)]
        assert [item for piece in found for item in piece] == whole
        assert sum(bool(piece) for piece in found) > 1
    assert len(plan_parts(WarcSource(name="w", kind="warc", paths=[str(path)]), LIMITS)) == -(
        -path.stat().st_size // LIMITS.shard_bytes
    )


@pytest.mark.parametrize("name", ["web.warc", "web.warc.gz"])
def test_the_records_before_a_cut_are_read(tmp_path: Path, name: str) -> None:
    path = crawl(tmp_path / name)
    whole = read(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = read(path)
    assert 10 < len(found) < 30
    assert found[:-1] == whole[: len(found) - 1]
    assert isinstance(found[-1], BadRow)
    assert found[-1].reason == "damaged file"
    pieces = [read(path, FilePiece(number=number, of=4)) for number in range(4)]
    assert [item for piece in pieces for item in piece] == found


@pytest.mark.parametrize("members", ["one for each record", "one for the file"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.77, 0.999])
def test_every_record_before_a_cut_of_compressed_text_is_read(tmp_path: Path, members: str, share: float) -> None:
    texts = [" ".join(f"{n * k % 9973}" for k in range(1, 60)) for n in range(150)]
    records = [
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:{n}>\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}".encode()
        for n, text in enumerate(texts)
    ]
    gap = b"\r\n\r\n"
    if members == "one for the file":
        data = gzip.compress(b"".join(record + gap for record in records))
    else:
        data = b"".join(gzip.compress(record + gap) for record in records)
    data = data[: int(share * len(data))]
    (tmp_path / "web.warc.wet.gz").write_bytes(data)
    left, rest = b"", data
    while rest:  # Decompress independently of the reader.
        member = zlib.decompressobj(wbits=31)
        left, rest = left + member.decompress(rest), member.unused_data
    ends = accumulate(len(record) + len(gap) for record in records)
    complete = sum(end - len(gap) <= len(left) for end in ends)
    *found, damage = read(tmp_path / "web.warc.wet.gz")
    assert [item.text for item in found] == texts[:complete]
    assert isinstance(damage, BadRow)
    assert (damage.reason, damage.line) == ("damaged file", complete + 1)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("web.warc", b"", "empty file"),
        ("web.warc.gz", b"", "empty file"),
        ("web.warc", b"no archive at all\n" * 9, "damaged file"),
        ("web.warc.gz", b"no archive at all\n" * 9, "damaged file"),
        ("web.warc.gz", gzip.compress(b"no archive at all\n" * 9), "damaged file"),
    ],
    ids=["nothing", "nothing of gzip", "text", "text for gzip", "text in gzip"],
)
def test_a_file_that_is_not_an_archive_is_one_bad_row(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert keys(read(path)) == [reason]
    assert keys([item for number in range(3) for item in read(path, FilePiece(number=number, of=3))]) == [reason]


def test_a_record_without_an_id_is_a_bad_row(tmp_path: Path) -> None:
    path = crawl(tmp_path / "web.warc", 3)
    path.write_bytes(path.read_bytes().replace(b"WARC-Record-ID: <urn:uuid:3>\r\n", b""))
    assert keys(read(path)) == ["urn:uuid:2", "missing id", "urn:uuid:4"]


def test_without_warcio_the_error_names_the_command_that_installs_it(tmp_path: Path) -> None:
    code = """
import sys
import zlib
from itertools import accumulate
sys.modules["warcio"] = None
from bloomery.config.sources import WarcSource
from data_prep.corpus.sources.warc import read_warc
try:
    list(read_warc(WarcSource(name="web", kind="warc", paths=["x"]), [], 1000))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ResourceError sources[web].kind: web archives need warcio, which is not installed" in done.stdout
    assert "pip install 'bloomery[warc]'" in done.stdout
