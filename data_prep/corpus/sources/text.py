"""Read plain text files. A document is a file, a line, or a block between empty lines."""

from __future__ import annotations

from collections.abc import Iterator

from bloomery.config.part_input import FilePiece
from bloomery.config.sources import TextSource
from data_prep.corpus.rows import BadRow, Fields, Item, excerpt_of, name_of, row_from_fields
from data_prep.corpus.sources.read_lines import decode_line, read_lines


def read_text(source: TextSource, files: list[str], max_bytes: int, piece: FilePiece | None = None) -> Iterator[Item]:
    """Yield the documents of text files. The key is the file's name and the number of the document's first line.

    An example of a key is `notes.txt:17`. A file can be read in pieces only if each line is a document.
    """
    fields = Fields(fixed_language=source.language, max_bytes=max_bytes)
    for path in files:
        name = name_of(path)
        collected = _Collected(name, max_bytes)
        for entry in read_lines(path, max_bytes, piece):
            if isinstance(entry, BadRow):
                if entry.reason == "damaged file" and source.documents != "line":
                    collected.drop()  # the rest of the document is lost, so the part that was read is not used
                if entry.reason == "too long" and source.documents != "line":
                    collected.spoil(entry)
                else:
                    yield entry
                continue
            line, data = entry
            blank = not data or data.isspace()
            if source.documents == "line":
                if not blank:
                    yield _document([data], fields, name, line)
            elif source.documents == "paragraph" and blank:
                yield from collected.finish(fields)
            else:
                collected.add(line, data)
        yield from collected.finish(fields)


class _Collected:
    """Collects the lines of the current document. If the document exceeds the limit, only its bad row is held."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self._file = file
        self._limit = max_bytes
        self.drop()

    def drop(self) -> None:
        """Discard the current document."""
        self._lines: list[bytes] = []
        self._bytes = 0
        self._first = 0
        self._bad: BadRow | None = None

    def spoil(self, bad: BadRow) -> None:
        """Turn the current document into a bad row."""
        self._bad = self._bad or bad
        self._lines = []

    def add(self, line: int, data: bytes) -> None:
        """Add a line to the current document."""
        self._first = self._first or line
        self._bytes += len(data) + 1
        if self._bad is None and self._bytes > self._limit + 1:
            first = self._lines[0] if self._lines else data
            self.spoil(
                BadRow(
                    self._file,
                    self._first,
                    "too long",
                    f"the limit (corpus.ingest.max_document_bytes) is {self._limit} bytes per document",
                    excerpt_of(first),
                )
            )
        if self._bad is None:
            self._lines.append(data)

    def finish(self, fields: Fields) -> Iterator[Item]:
        """Yield the current document, if there is one, and begin a new one."""
        if self._bad is not None:
            yield self._bad
        elif self._lines:
            yield _document(self._lines, fields, self._file, self._first)
        self.drop()


def _document(lines: list[bytes], fields: Fields, file: str, line: int) -> Item:
    text = decode_line(b"\n".join(lines), file, line)
    if isinstance(text, BadRow):
        return text
    return row_from_fields({"text": text}, fields, file, line)
