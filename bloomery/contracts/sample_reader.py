"""Reading samples of the index: what training feeds on and what the index's own checks and traces read.

A sample is `sequence_length + 1` consecutive tokens of a dataset's documents laid end to end; it crosses documents and
token files. Everything is memory-mapped: a reader costs a few pages a sample, whatever the size of the corpus, and
every rank of a node shares them. At most `OPEN_TOKEN_FILES` pairs are open at once, because each holds two file
descriptors and a corpus of 1.6 TB has thousands of pairs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.errors import BloomeryError, InputError
from bloomery.contracts.index import DatasetEntry, TokenFile, open_array, open_token_file, read_index_manifest

OPEN_TOKEN_FILES = 128


class SampleRangeError(BloomeryError, IndexError):
    """A sample, or a set of samples, that the index does not hold."""


@dataclass(frozen=True)
class DocumentSpan:
    """A stretch of a sample: tokens `begin` to `end` of one document."""

    token_file: int
    """Number of the pair."""
    document: int
    """Number of the document in it."""
    begin: int
    end: int
    tokens: int
    """Of the whole document."""
    epoch: int
    """How often the dataset was read before, from 0. Order `megatron` mixes its epochs: as if it did not."""


@dataclass(frozen=True)
class _Dataset:
    entry: DatasetEntry
    documents: npt.NDArray[Any]
    sample_starts: npt.NDArray[Any]
    shuffle: npt.NDArray[Any]


class SampleReader:
    """Samples of an index folder (the one that holds `index.json`)."""

    def __init__(self, index_folder: Path) -> None:
        """Open the manifest and map the arrays. Raises InputError for a missing or damaged index."""
        self.folder = Path(index_folder)
        self.manifest = read_index_manifest(self.folder / "index.json")
        self.sequence_length = self.manifest.sequence_length
        self.end_of_document = self.manifest.end_of_document
        self._train = [self._open_dataset(entry) for entry in self.manifest.train]
        self._validation = {entry.name: self._open_dataset(entry) for entry in self.manifest.validation}
        self._blend_dataset = open_array(self.folder, self.manifest.blend_dataset)
        self._blend_sample = open_array(self.folder, self.manifest.blend_sample)
        counts = [file.documents for file in self.manifest.token_files]
        self._ends = np.cumsum(counts, dtype=np.int64)
        """Number of the first document behind each token file."""
        self._open_files: OrderedDict[int, TokenFile] = OrderedDict()

    @property
    def train_samples(self) -> int:
        """Training samples that may be read."""
        return len(self._blend_dataset)

    @property
    def train_names(self) -> list[str]:
        """Names of the training datasets; their positions are the numbers in the blend."""
        return [dataset.entry.name for dataset in self._train]

    @property
    def validation_names(self) -> list[str]:
        """Names of the validation sets, in the manifest's order."""
        return list(self._validation)

    def validation_samples(self, name: str) -> int:
        """Samples of a validation set. Raises SampleRangeError for an unknown name."""
        return len(self._validation_set(name).shuffle)

    def train(self, global_sample: int) -> npt.NDArray[np.int64]:
        """Tokens of a training sample, int64 [sequence_length + 1]. Raises SampleRangeError."""
        dataset, sample = self.locate(global_sample)
        return self._read(self._train[dataset], sample)

    def locate(self, global_sample: int) -> tuple[int, int]:
        """(training dataset, sample within it) of a global sample. Raises SampleRangeError."""
        self._check_range(global_sample, self.train_samples, "the training samples")
        return int(self._blend_dataset[global_sample]), int(self._blend_sample[global_sample])

    def validation(self, name: str, sample: int) -> npt.NDArray[np.int64]:
        """Tokens of a sample of a validation set, int64 [sequence_length + 1]. Raises SampleRangeError."""
        return self._read(self._validation_set(name), sample)

    def _validation_set(self, name: str) -> _Dataset:
        try:
            return self._validation[name]
        except KeyError:
            raise SampleRangeError(
                f"no validation set {name!r}",
                where=str(self.folder),
                expected=f"one of {', '.join(self._validation) or '(the index has none)'}",
            ) from None

    def _open_dataset(self, entry: DatasetEntry) -> _Dataset:
        return _Dataset(
            entry,
            open_array(self.folder, entry.documents),
            open_array(self.folder, entry.sample_starts),
            open_array(self.folder, entry.shuffle),
        )

    def _check_range(self, sample: int, length: int, what: str) -> None:
        if not 0 <= sample < length:
            raise SampleRangeError(
                f"sample {sample} of {what} does not exist",
                where=str(self.folder),
                expected=f"0 to {length - 1}: the index was built for {length} samples",
            )

    def _token_file(self, number: int) -> TokenFile:
        found = self._open_files.get(number)
        if found is None:
            found = open_token_file(self.folder / self.manifest.token_files[number].prefix, check=False)
            self._open_files[number] = found
            if len(self._open_files) > OPEN_TOKEN_FILES:
                self._open_files.popitem(last=False)
        else:
            self._open_files.move_to_end(number)
        return found

    def train_spans(self, global_sample: int) -> Iterator[DocumentSpan]:
        """Which documents a training sample is made of, in order. Raises SampleRangeError."""
        dataset, sample = self.locate(global_sample)
        return self._spans(self._train[dataset], sample)

    def validation_spans(self, name: str, sample: int) -> Iterator[DocumentSpan]:
        """Which documents a sample of a validation set is made of, in order. Raises SampleRangeError."""
        return self._spans(self._validation_set(name), sample)

    def document_tokens(self, token_file: int, document: int) -> npt.NDArray[Any]:
        """All tokens of a document, memory-mapped."""
        file = self._token_file(token_file)
        begin = int(file.offsets[document]) // file.dtype.itemsize
        return file.tokens[begin : begin + int(file.lengths[document])]

    def _read(self, dataset: _Dataset, sample: int) -> npt.NDArray[np.int64]:
        tokens = np.empty(self.sequence_length + 1, dtype=np.int64)
        filled = 0
        for span in self._spans(dataset, sample):
            end = filled + span.end - span.begin
            tokens[filled:end] = self.document_tokens(span.token_file, span.document)[span.begin : span.end]
            filled = end
        return tokens

    def _spans(self, dataset: _Dataset, sample: int) -> Iterator[DocumentSpan]:
        self._check_range(sample, len(dataset.shuffle), f"{dataset.entry.name!r}")
        position, begin = (int(value) for value in dataset.sample_starts[dataset.shuffle[sample]])
        wanted = self.sequence_length + 1
        while wanted:
            number, document = self._document(dataset, position)
            tokens = int(self._token_file(number).lengths[document])
            end = min(begin + wanted, tokens)
            # An empty document is no stretch of anything.
            if end > begin:
                yield DocumentSpan(
                    number, document, begin, end, tokens, position // max(dataset.entry.unique_documents, 1)
                )
                wanted -= end - begin
            position, begin = position + 1, 0

    def _document(self, dataset: _Dataset, position: int) -> tuple[int, int]:
        """(token file, document in it) at a position of the reading order."""
        if position >= len(dataset.documents):
            raise InputError(
                f"samples of {dataset.entry.name!r} reach beyond its documents",
                where=str(self.folder),
                expected="an index that `bloomery index verify` accepts",
            )
        document = int(dataset.documents[position])
        number = int(np.searchsorted(self._ends, document, side="right"))
        return number, document - (int(self._ends[number - 1]) if number else 0)
