"""Sources of text. Each kind of source has a module that yields rows and bad rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bloomery.config.sources import HubSource, JsonlSource, ParquetSource, TextSource, WarcSource
from bloomery.config.stages import IngestStage
from data_prep.corpus.rows import Item, Observe


def read_source(stage: IngestStage, observe: Observe | None = None) -> Iterator[Item]:
    """Return an iterator of the rows of one part of a source, in the source's order.

    It yields at most `max_documents` rows, bad rows included. `observe` is called with the fields of each row of a
    source whose rows have fields.

    Raises:
        InputError: the source as a whole cannot be read. An error in one row or one file gives a `BadRow` instead.
    """
    rows = stage.source.max_documents
    files = stage.files or []
    return _read(stage, files, observe) if rows is None else _read_some(stage, files, rows, observe)


def _read_some(stage: IngestStage, files: list[str], rows: int, observe: Observe | None) -> Iterator[Item]:
    """Yield the first rows of each file, `rows` in total. If a file is too short, later files yield more rows."""
    if not files:
        yield from islice(_read(stage, files, observe), rows)
        return
    for number, file in enumerate(files):
        share = -(-rows // (len(files) - number))
        for item in islice(_read(stage, [file], observe), share):
            rows -= 1
            yield item


def _read(stage: IngestStage, files: list[str], observe: Observe | None) -> Iterator[Item]:
    source, limit = stage.source, stage.ingest.max_document_bytes
    if isinstance(source, JsonlSource):
        from data_prep.corpus.sources.jsonl import read_jsonl

        return read_jsonl(source, files, limit, stage.piece, observe)
    if isinstance(source, ParquetSource):
        from data_prep.corpus.sources.parquet import read_parquet

        return read_parquet(source, files, limit, stage.piece, observe)
    if isinstance(source, TextSource):
        from data_prep.corpus.sources.text import read_text

        return read_text(source, files, limit, stage.piece)
    if isinstance(source, WarcSource):
        from data_prep.corpus.sources.warc import read_warc

        return read_warc(source, files, limit, stage.piece)
    if isinstance(source, HubSource):
        from data_prep.corpus.sources.hub import read_hub

        return read_hub(source, limit, observe)
    from data_prep.corpus.sources.udhr import read_udhr

    return read_udhr(source, limit)
