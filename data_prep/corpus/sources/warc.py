"""Web archives: the text of HTML pages (WARC, by trafilatura) and text that was extracted before (WET).

A document is a page that answered 2xx with HTML, or a `conversion` record; its key is the WARC-Record-ID. Requests,
redirects, images and whatever else an archive holds is passed over, and counted in the log: it is no bad row. Records
are read one by one, so memory is that of one page, at most a few times `ingest.max_document_bytes`.
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
from data_prep.corpus.sources.file_piece import BLOCK_BYTES, DamageError, PieceStream

_HTML = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 1 << 20
_META_BYTES = 4096
"""A page says its charset near its beginning (HTML wants it within 1,024 bytes)."""


class _PassedOverError(Exception):
    """A record that is no document, and is not meant to be one."""


def read_warc(source: WarcSource, files: list[str], max_bytes: int, piece: FilePiece | None = None) -> Iterator[Item]:
    """Documents of web archives, or of a piece of each; rows are numbered by the file's records, from 1.

    Raises:
        ResourceError: the extra `warc` is not installed.
        InputError: a file cannot be opened or read by the operating system.
    """
    try:
        import trafilatura  # noqa: F401 (said before the first page, and not in the middle of a file)
        import warcio  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            f"web archives need {error.name}, which is not installed",
            where=f"sources[{source.name}].kind",
            expected="the extra `warc`: pip install 'bloomery[warc]', or pip install -e '.[warc]' in its folder",
        ) from error
    # It would name every page that it takes nothing from; these are counted here.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    fields = Fields(identity="id", fixed_language=source.language, max_bytes=max_bytes)
    for path in files:
        passed: Counter[str] = Counter()
        documents = 0
        for item in _read_file(path, fields, piece, passed):
            documents += not isinstance(item, BadRow)
            yield item
        others = ", ".join(f"{count} {why}" for why, count in sorted(passed.items()))
        say(f"{name_of(path)}: {documents} documents; passed over: {others or 'nothing'}")


def _read_file(path: str, fields: Fields, piece: FilePiece | None, passed: Counter[str]) -> Iterator[Item]:
    from warcio.archiveiterator import WARCIterator
    from warcio.exceptions import ArchiveLoadFailed
    from warcio.statusandheaders import StatusAndHeadersParserException

    name, number = name_of(path), 0
    stream = PieceStream(path, piece)
    try:
        with io.BufferedReader(stream, BLOCK_BYTES) as reader:
            # It is given decompressed bytes: of damaged ones it would only complain on stderr.
            records = WARCIterator(reader, no_record_parse=True)
            for record in records:
                number += 1
                if not stream.owns(records.offset):
                    if stream.ends is not None and records.offset >= stream.ends:
                        return
                    continue
                try:
                    yield _document(record, fields, name, number)
                except _PassedOverError as why:
                    passed[str(why)] += 1
    except DamageError as damage:
        if stream.owns_damage(damage):
            yield BadRow(name, number + 1, "damaged file", f"{damage}; the records before are kept")
        return
    except (ArchiveLoadFailed, StatusAndHeadersParserException) as error:
        if stream.owns(records.offset):
            said = " ".join(str(error).split())[:200]
            yield BadRow(name, number + 1, "damaged file", f"{said}; the records before are kept")
        return
    if number == 0 and (piece is None or piece.number == 0):
        yield BadRow(name, None, "empty file")


def _document(record: Any, fields: Fields, name: str, number: int) -> Item:
    """The row of a record; raises _PassedOverError when it is no document."""
    headers = record.rec_headers
    kind = (headers.get_header("Content-Type") or "").split(";")[0].strip().lower()
    if record.rec_type == "response":
        kind, content_type = _html_kind(record)
    elif record.rec_type != "conversion" or kind != "text/plain":
        raise _PassedOverError(f"{record.rec_type} records")
    body = record.content_stream().read(fields.max_bytes + 1)
    if len(body) > fields.max_bytes:
        return BadRow(name, number, "too long", f"the limit is {fields.max_bytes}", excerpt_of(body))
    while record.raw_stream.read(BLOCK_BYTES):
        pass
    if getattr(record.raw_stream, "limit", 0) > 0:
        return BadRow(name, number, "damaged file", "the last record is cut", excerpt_of(body))
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
    except Exception as error:  # parsers of the web's HTML fail in many ways, and a page is not worth the job
        return BadRow(name, number, "page cannot be read", f"{type(error).__name__}: {error}"[:200], excerpt_of(body))
    if not text:
        raise _PassedOverError("pages without text")
    return row_from_fields(values | {"text": text}, fields, name, number)


def _html_kind(record: Any) -> tuple[str, str]:
    """Media type and whole `Content-Type` of a page; raises _PassedOverError for any other response."""
    from warcio.limitreader import LimitReader
    from warcio.statusandheaders import StatusAndHeadersParser

    try:
        head = LimitReader(record.raw_stream, _HEAD_BYTES)
        record.http_headers = StatusAndHeadersParser(["HTTP/"], verify=False).parse(head)
    except EOFError:
        raise _PassedOverError("responses without headers") from None
    if not record.http_headers.get_statuscode().startswith("2"):
        raise _PassedOverError("responses that are no 2xx")
    content_type = record.http_headers.get_header("Content-Type") or ""
    kind = content_type.split(";")[0].strip().lower()
    if kind not in _HTML:
        raise _PassedOverError("responses that are no HTML")
    return kind, content_type


def _page_text(body: bytes, content_type: str, url: str | None) -> str | None:
    """What a person reads on the page: no menus, no comments; None when there is nothing."""
    import trafilatura

    found: str | None = trafilatura.extract(_decoded(body, content_type), url=url, include_comments=False)
    return found


def _decoded(body: bytes, content_type: str) -> str | bytes:
    """The page's characters; its bytes, for trafilatura to guess, where it does not say how it is written.

    What is valid UTF-8 is hardly ever anything else, whatever a page says of itself.
    """
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    said = _CHARSET.search(content_type) or _CHARSET.search(body[:_META_BYTES].decode("ascii", "replace"))
    charset = said.group(1).lower() if said else ""
    # Browsers read these as windows-1252, and so they are written (https://encoding.spec.whatwg.org).
    charset = "cp1252" if charset in ("iso-8859-1", "latin1", "us-ascii", "ascii") else charset
    try:
        return body.decode(charset, "replace") if charset else body
    except (LookupError, ValueError):
        return body
