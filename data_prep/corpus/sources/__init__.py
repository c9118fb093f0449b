"""Sources of text: one module a kind, all of them iterators of rows and bad rows."""

from __future__ import annotations

from collections.abc import Iterator

from bloomery.config.sources import HubSource, JsonlSource, ParquetSource, TextSource
from bloomery.config.stages import IngestStage
from data_prep.corpus.rows import Item


def read_source(stage: IngestStage) -> Iterator[Item]:
    """Rows of one part of a source, in the source's order.

    Raises:
        InputError: the source as a whole cannot be read; a fault of one row or one file is a `BadRow` instead.
    """
    source, files, limit = stage.source, stage.files or [], stage.ingest.max_document_bytes
    if isinstance(source, JsonlSource):
        from data_prep.corpus.sources.jsonl import read_jsonl

        return read_jsonl(source, files, limit)
    if isinstance(source, ParquetSource):
        from data_prep.corpus.sources.parquet import read_parquet

        return read_parquet(source, files, limit)
    if isinstance(source, TextSource):
        from data_prep.corpus.sources.text import read_text

        return read_text(source, files, limit)
    if isinstance(source, HubSource):
        from data_prep.corpus.sources.hub import read_hub

        return read_hub(source, limit)
    from data_prep.corpus.sources.udhr import read_udhr

    return read_udhr(source, limit)
