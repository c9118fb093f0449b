"""Read web archives: HTML pages (WARC), whose text trafilatura extracts, and text that is already extracted (WET).

A document is an HTML response with status 2xx, or a `conversion` record. Its key is the WARC-Record-ID. All other
records, such as requests, redirects and images, are skipped and counted in the log. They are not bad rows. Records are
read one by one, so only one page is in memory: at most a few times `ingest.max_document_bytes`.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bloomery.base.errors import ResourceError
from bloomery.base.progress import say
from bloomery.config.part_input import FilePiece
from bloomery.config.sources import WarcSource
from data_prep.corpus.rows import BadRow, Fields, Item, excerpt_of, name_of, row_from_fields
from data_prep.corpus.sources.file_piece import BLOCK_BYTES, PieceStream

_HTML = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 1 << 20
_META_BYTES = 4096
"""Bytes at the beginning of a page that are searched for its charset. HTML requires it within the first 1,024 bytes."""


class _PassedOverError(Exception):
    """Raised for a record that is neither a document nor a bad row. Its message is the kind of record to count."""


def read_warc(source: WarcSource, files: list[str], max_bytes: int, piece: FilePiece | None = None) -> Iterator[Item]:
    """Yield the documents of web archives, or of a piece of each. Rows are numbered by the file's records, from 1.

    Raises:
        ResourceError: the extra `warc` is not installed.
        InputError: a file cannot be opened or read by the operating system.
    """
    try:
        import trafilatura  # noqa: F401 (a missing package is reported before the first page is read)
        import warcio  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            f"web archives need {error.name}, which is not installed",
            where=f"sources[{source.name}].kind",
            expected="the extra `warc`: pip install 'bloomery[warc]', or pip install -e '.[warc]' in Bloomery's folder",
        ) from error
    # trafilatura would log every page without text. This module counts such pages instead.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    fields = Fields(identity="id", fixed_language=source.language, max_bytes=max_bytes)
    for path in files:
        passed: Counter[str] = Counter()
        documents = 0
        for item in _read_file(path, fields, piece, passed):
            documents += not isinstance(item, BadRow)
            yield item
        others = ", ".join(f"{count} {why}" for why, count in sorted(passed.items()))
        say(f"{name_of(path)}: {documents} documents; skipped: {others or 'nothing'}")


def _read_file(path: str, fields: Fields, piece: FilePiece | None, passed: Counter[str]) -> Iterator[Item]:
    from warcio.archiveiterator import WARCIterator
    from warcio.exceptions import ArchiveLoadFailed
    from warcio.statusandheaders import StatusAndHeadersParserException

    name, number = name_of(path), 0
    stream = PieceStream(path, piece)
    bad_header = incomplete = False
    with io.BufferedReader(stream, BLOCK_BYTES) as reader:
        # warcio gets decompressed bytes, because it would only print a warning about damaged compressed data.
        records = WARCIterator(reader, no_record_parse=True)
        try:
            for record in records:
                number += 1
                if not stream.owns(records.offset):
                    if stream.ends is not None and records.offset >= stream.ends:
                        return
                    continue
                item = _document_or_none(record, fields, name, number, passed)
                # If the file is damaged, only the last record before the damage can be incomplete.
                incomplete = stream.damage is not None and _is_incomplete(record)
                if item is not None and not incomplete:
                    yield item
        except (ArchiveLoadFailed, StatusAndHeadersParserException):
            bad_header = True
    line = number if incomplete else number + 1
    used = "only the records before the damage are used"
    if stream.damage is not None:
        if (damage := stream.owned_damage()) is not None:
            yield BadRow(name, line, "damaged file", f"{damage}; {used}")
        return
    if bad_header:
        if stream.owns(records.offset):
            yield BadRow(name, line, "damaged file", f"the header of a record is damaged; {used}")
        return
    if number == 0 and (piece is None or piece.number == 0):
        yield BadRow(name, None, "empty file")


def _document_or_none(record: Any, fields: Fields, name: str, number: int, passed: Counter[str]) -> Item | None:
    """Return the row of a record. If the record is not a document, count it in `passed` and return None."""
    try:
        return _document(record, fields, name, number)
    except _PassedOverError as why:
        passed[str(why)] += 1
        return None


def _is_incomplete(record: Any) -> bool:
    """Return whether the file ends inside the record. This function reads the rest of the record."""
    while record.raw_stream.read(BLOCK_BYTES):
        pass
    no_length = record.rec_headers.get_header("Content-Length") is None
    return no_length or getattr(record.raw_stream, "limit", 0) > 0


def _document(record: Any, fields: Fields, name: str, number: int) -> Item:
    """Return the row of a record. Raises _PassedOverError if the record is not a document."""
    headers = record.rec_headers
    kind = (headers.get_header("Content-Type") or "").split(";")[0].strip().lower()
    if record.rec_type == "response":
        kind, content_type = _html_kind(record)
    elif record.rec_type != "conversion" or kind != "text/plain":
        raise _PassedOverError(f"{record.rec_type} records")
    body = record.content_stream().read(fields.max_bytes + 1)
    if len(body) > fields.max_bytes:
        return BadRow(
            name,
            number,
            "too long",
            f"the limit (corpus.ingest.max_document_bytes) is {fields.max_bytes} bytes per document",
            excerpt_of(body),
        )
    while record.raw_stream.read(BLOCK_BYTES):
        pass
    if getattr(record.raw_stream, "limit", 0) > 0:
        return BadRow(name, number, "damaged file", "the last record is truncated", excerpt_of(body))
    values = {
        "id": (headers.get_header("WARC-Record-ID") or "").strip("<> "),
        "url": headers.get_header("WARC-Target-URI"),
        "date": headers.get_header("WARC-Date"),
        "type": kind,
        "languages": headers.get_header("WARC-Identified-Content-Language"),
    }
    values = {key: value for key, value in values.items() if value is not None}
    if record.rec_type == "conversion":
        try:
            return row_from_fields(values | {"text": body.decode("utf-8")}, fields, name, number)
        except UnicodeDecodeError as error:
            return BadRow(name, number, "invalid UTF-8", f"{error.reason} at byte {error.start}", excerpt_of(body))
    try:
        text = _page_text(body, content_type, values.get("url"))
    except Exception as error:  # HTML parsers fail in many ways, and one page must not fail the whole job
        return BadRow(
            name, number, "page cannot be read", f"the HTML parser failed ({type(error).__name__})", excerpt_of(body)
        )
    if not text:
        raise _PassedOverError("pages without text")
    return row_from_fields(values | {"text": text}, fields, name, number)


def _html_kind(record: Any) -> tuple[str, str]:
    """Return the media type and the whole `Content-Type` of a page. Raises _PassedOverError for any other response."""
    from warcio.limitreader import LimitReader
    from warcio.statusandheaders import StatusAndHeadersParser

    try:
        head = LimitReader(record.raw_stream, _HEAD_BYTES)
        record.http_headers = StatusAndHeadersParser(["HTTP/"], verify=False).parse(head)
    except EOFError:
        raise _PassedOverError("responses without headers") from None
    if not record.http_headers.get_statuscode().startswith("2"):
        raise _PassedOverError("responses without status 2xx")
    content_type = record.http_headers.get_header("Content-Type") or ""
    kind = content_type.split(";")[0].strip().lower()
    if kind not in _HTML:
        raise _PassedOverError("responses that are not HTML")
    return kind, content_type


def _page_text(body: bytes, content_type: str, url: str | None) -> str | None:
    """Return the main text of the page, without menus and comments, or None if there is none."""
    import trafilatura

    found: str | None = trafilatura.extract(_decoded(body, content_type), url=url, include_comments=False)
    return found


def _decoded(body: bytes, content_type: str) -> str | bytes:
    """Return the page's characters, or its bytes if no charset is known; trafilatura then guesses the charset.

    UTF-8 is tried first. Bytes that are valid UTF-8 are almost always UTF-8, even if the page states another charset.
    """
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    said = _CHARSET.search(content_type) or _CHARSET.search(body[:_META_BYTES].decode("ascii", "replace"))
    charset = said.group(1).lower() if said else ""
    # Browsers decode these charsets as windows-1252 (https://encoding.spec.whatwg.org), so pages usually use it.
    charset = "cp1252" if charset in ("iso-8859-1", "latin1", "us-ascii", "ascii") else charset
    try:
        return body.decode(charset, "replace") if charset else body
    except (LookupError, ValueError):
        return body
