"""The documents behind a sample: where each came from, which of its tokens the sample holds, and their text.

Text is what the tokens say, for those are what the model was fed; that it is the text of the clean shard too is checked
where the shard is still there. A sample costs a few pages of the token files, and a document one row group of its
sidecar and one of its shard: no more memory for a corpus of any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError
from bloomery.contracts.index import DatasetEntry
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import DocumentSpan, SampleReader
from bloomery.contracts.tokenizer import TOKENIZER, load_tokenizer
from data_prep.formats.shard import read_manifest, read_rows
from data_prep.formats.sidecar import sidecar_path

_COLUMNS = ["id", "source", "language", "shard", "row"]


@dataclass(frozen=True)
class TracedDocument:
    """A document, and the part of it that a sample holds."""

    id: str
    source: str
    language: str
    shard: str
    """The clean shard that it is a row of; of token files from elsewhere: their name."""
    row: int
    epoch: int | None
    """How often its dataset was read up to here, this time included; None: its epochs are mixed (order `megatron`)."""
    begin: int
    """First token of the document that the sample holds."""
    end: int
    """The token behind the last one that the sample holds."""
    tokens: int
    """Of the whole document, its end of document counted."""
    text: str | None
    """Of the tokens `begin` to `end`; a character that is cut in two shows as U+FFFD. None: not asked for."""
    text_matches_shard: bool | None
    """Whether the whole document's tokens are those of the clean shard's text; None: no such shard, or not asked."""


@dataclass(frozen=True)
class TracedSample:
    """One sample. Its last token is predicted and not read: it is the next sample's first."""

    sample: int
    """Number in the training, or in the validation set."""
    dataset: str
    language: str
    dataset_sample: int
    """Number within the dataset."""
    iteration: int | None
    """That reads it; None: a validation set, or beyond the training."""
    replica: int | None
    """Of the data-parallel layout."""
    documents: list[TracedDocument]


class Tracer:
    """Traces samples of a run."""

    def __init__(self, paths: RunPaths, *, texts: bool) -> None:
        """Open the index and its tokenizer; `texts`: decode and check the texts.

        Raises InputError: no index, or a tokenizer that is not the index's.
        """
        if not paths.index_manifest.is_file():
            raise InputError(
                "the run has no index", where=str(paths.index_manifest), expected="a run whose index stage has finished"
            )
        self.reader = SampleReader(paths.index)
        self._clean = paths.corpus / "clean"
        self._tokenizer = _open_tokenizer(paths.tokenizer / TOKENIZER, self.reader) if texts else None

    def train(self, sample: int, read_by: tuple[int, int] | None) -> TracedSample:
        """A sample of the training; `read_by`: (iteration, replica). Raises SampleRangeError, InputError."""
        dataset, number = self.reader.locate(sample)
        iteration, replica = read_by or (None, None)
        return self._trace(
            sample, self.reader.manifest.train[dataset], number, iteration, replica, self.reader.train_spans(sample)
        )

    def validation(self, name: str, sample: int) -> TracedSample:
        """A sample of a validation set. Raises SampleRangeError, InputError."""
        spans = self.reader.validation_spans(name, sample)
        entry = next(entry for entry in self.reader.manifest.validation if entry.name == name)
        return self._trace(sample, entry, sample, None, None, spans)

    def _trace(
        self,
        sample: int,
        entry: DatasetEntry,
        number: int,
        iteration: int | None,
        replica: int | None,
        spans: Iterator[DocumentSpan],
    ) -> TracedSample:
        documents = [self._document(span) for span in spans]
        return TracedSample(sample, entry.name, entry.language, number, iteration, replica, documents)

    def _document(self, span: DocumentSpan) -> TracedDocument:
        prefix = self.reader.folder / self.reader.manifest.token_files[span.token_file].prefix
        facts = _row(sidecar_path(prefix), span.document, _COLUMNS)
        text, matches = None, None
        if self._tokenizer is not None:
            tokens = self.reader.document_tokens(span.token_file, span.document)
            text = self._decode(tokens[span.begin : span.end])
            matches = self._matches_shard(tokens, self._clean / f"{facts['shard']}.parquet", facts)
        return TracedDocument(
            **facts,
            epoch=None if self.reader.manifest.order == "megatron" else span.epoch + 1,
            begin=span.begin,
            end=span.end,
            tokens=span.tokens,
            text=text,
            text_matches_shard=matches,
        )

    def _decode(self, tokens: npt.NDArray[Any]) -> str:
        """Text of tokens without an end of document after them; bytes that are no UTF-8 become U+FFFD."""
        assert self._tokenizer is not None
        return str(self._tokenizer.decode(self._content(tokens).tolist(), skip_special_tokens=False))

    def _content(self, tokens: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return tokens[:-1] if len(tokens) and tokens[-1] == self.reader.end_of_document else tokens

    def _matches_shard(self, tokens: npt.NDArray[Any], shard: Path, facts: dict[str, Any]) -> bool | None:
        if not shard.is_file():
            return None
        if facts["row"] >= read_manifest(shard)["rows"]:
            return False
        found = _row(shard, facts["row"], ["id", "text"])
        if found["id"] != facts["id"]:
            return False
        if found["text"] == self._decode(tokens):
            return True
        # A tokenizer that normalises does not give the text back, but makes the same tokens of it.
        assert self._tokenizer is not None
        again = self._tokenizer.encode(found["text"], add_special_tokens=False).ids
        return bool(np.array_equal(again, self._content(tokens)))


def _open_tokenizer(path: Path, reader: SampleReader) -> Any:
    tokenizer = load_tokenizer(path)
    digest = reader.manifest.tokenizer_digest
    if digest_file(path) != digest:
        raise InputError("is not the tokenizer of the index", where=str(path), expected=f"digest {digest}")
    tokenizer.encode_special_tokens = True
    return tokenizer


def _row(path: Path, row: int, columns: list[str]) -> dict[str, Any]:
    """One row of a table: of the file, the row group that holds it is read. Raises InputError."""
    for batch in read_rows(path, np.array([row], dtype=np.int64), columns):
        return dict(batch.to_pylist()[0])
    raise InputError(f"has no row {row}", where=str(path), expected=f"0 to {read_manifest(path)['rows'] - 1}")
