"""Trace a sample to its documents: where each document came from, which of its tokens the sample holds, and their text.

The text is decoded from the tokens, because the model reads tokens. If the clean shard still exists, its text is
compared with the tokens. Tracing reads a few pages of the token files per sample. For each document, it reads one row
group of the sidecar and one of the shard. Memory use does not depend on the size of the corpus.
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
from bloomery.contracts.index_manifest import DatasetEntry
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import DocumentSpan, SampleReader
from bloomery.contracts.tokenizer import TOKENIZER, load_tokenizer
from data_prep.formats.shard import read_manifest, read_rows
from data_prep.formats.sidecar import sidecar_path

_COLUMNS = ["id", "source", "language", "shard", "row"]


@dataclass(frozen=True)
class TracedDocument:
    """A document and the part of it that a sample holds."""

    id: str
    source: str
    language: str
    shard: str
    """Clean shard that holds the document, or the name of the token file if Megatron-LM wrote it."""
    row: int
    """Row of the document in the shard or, if Megatron-LM wrote the token file, its number in that file."""
    epoch: int | None
    """Epoch of the dataset in which the sample reads the document, from 1. None in order `megatron`, which mixes
    epochs."""
    begin: int
    """Position in the document of the first token that the sample holds."""
    end: int
    """Position in the document after the last token that the sample holds."""
    tokens: int
    """Number of tokens of the whole document, with its end-of-document token."""
    text: str | None
    """Text of the tokens `begin` to `end`, or None if texts were not requested. U+FFFD replaces cut characters."""
    text_matches_shard: bool | None
    """Whether the whole document has the tokens of the clean shard's text. None if the run has no such shard, or if
    texts were not requested."""


@dataclass(frozen=True)
class TracedSample:
    """One sample. The model predicts the sample's last token but does not read it. The next sample starts with it."""

    sample: int
    """Number of the sample in the training or in the validation set."""
    dataset: str
    language: str
    dataset_sample: int
    """Number of the sample within the dataset."""
    iteration: int | None
    """Iteration that reads the sample. None for a validation set and for samples that the training does not read."""
    replica: int | None
    """Data-parallel replica that reads the sample. None if `iteration` is None."""
    documents: list[TracedDocument]


class Tracer:
    """Traces samples of a run."""

    def __init__(self, paths: RunPaths, *, texts: bool) -> None:
        """Open the index of a run. If `texts` is true, also open the tokenizer to decode and check texts.

        Raises:
            InputError: the run has no index, or the index was built with another tokenizer.
        """
        if not paths.index_manifest.is_file():
            raise InputError(
                "the run has no index",
                where=str(paths.index_manifest),
                expected="a run whose index stage has finished. Run its workflow first",
            )
        self.reader = SampleReader(paths.index)
        self._clean = paths.corpus / "clean"
        self._tokenizer = _open_tokenizer(paths.tokenizer / TOKENIZER, self.reader) if texts else None

    def train(self, sample: int, read_by: tuple[int, int] | None) -> TracedSample:
        """Trace a sample of the training, which `read_by` = (iteration, replica) reads.

        Raises:
            SampleRangeError: the training has no such sample.
            InputError: a file of the index is missing or damaged.
        """
        dataset, number = self.reader.locate(sample)
        iteration, replica = read_by or (None, None)
        return self._trace(
            sample, self.reader.manifest.train[dataset], number, iteration, replica, self.reader.train_spans(sample)
        )

    def validation(self, name: str, sample: int) -> TracedSample:
        """Trace a sample of the validation set `name`.

        Raises:
            SampleRangeError: there is no such validation set or sample.
            InputError: a file of the index is missing or damaged.
        """
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
        """Return the text of tokens without a final end-of-document token. U+FFFD replaces bytes that are not UTF-8."""
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
        # A tokenizer that normalises text does not decode to the original text, but encodes it to the same tokens.
        assert self._tokenizer is not None
        again = self._tokenizer.encode(found["text"], add_special_tokens=False).ids
        return bool(np.array_equal(again, self._content(tokens)))


def _open_tokenizer(path: Path, reader: SampleReader) -> Any:
    tokenizer = load_tokenizer(path)
    digest = reader.manifest.tokenizer_digest
    if digest_file(path) != digest:
        raise InputError(
            "this is not the tokenizer of the index",
            where=str(path),
            expected=f"the file with digest {digest}. Restore it, or run the index stage again",
        )
    tokenizer.encode_special_tokens = True
    return tokenizer


def _row(path: Path, row: int, columns: list[str]) -> dict[str, Any]:
    """Return one row of a table, reading only its row group. Raises InputError if the table has no such row."""
    for batch in read_rows(path, np.array([row], dtype=np.int64), columns):
        return dict(batch.to_pylist()[0])
    rows = read_manifest(path)["rows"]
    raise InputError(
        f"the index refers to row {row}, but the table has only {rows} rows",
        where=str(path),
        expected="the table from which the index was built. Check the files with `bloomery index verify`",
    )
