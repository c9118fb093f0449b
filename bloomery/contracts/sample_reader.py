"""Read samples of the index, for training and for the index's own checks and traces.

A sample is `sequence_length + 1` consecutive tokens of a dataset whose documents are concatenated. It can cross the
borders of documents and token files. All files are memory-mapped. A sample needs a few pages of memory, whatever the
size of the corpus is, and all ranks of a node share these pages. At most `OPEN_TOKEN_FILES` pairs of token files are
open at once, because each pair uses two file descriptors and a corpus of 1.6 TB has thousands of pairs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.errors import BloomeryError, InputError, TryAgainError
from bloomery.contracts.index import TokenFile, open_array, open_token_file
from bloomery.contracts.index_manifest import DatasetEntry, TokenFileEntry, read_index_manifest, resolve_index

OPEN_TOKEN_FILES = 128


class SampleRangeError(BloomeryError, IndexError):
    """The index does not contain the requested sample or set of samples."""


@dataclass(frozen=True)
class DocumentSpan:
    """Part of a sample that comes from one document: the tokens [begin, end) of that document."""

    token_file: int
    """Index of the token file."""
    document: int
    """Index of the document in the token file."""
    begin: int
    end: int
    tokens: int
    """Number of tokens of the whole document."""
    epoch: int
    """Number of times that the whole dataset was read before this part, starting at 0.

    The number is computed as if epochs were not mixed, although `megatron` order mixes them.
    """


@dataclass(frozen=True)
class _Dataset:
    entry: DatasetEntry
    documents: npt.NDArray[Any]
    sample_starts: npt.NDArray[Any]
    shuffle: npt.NDArray[Any]


class SampleReader:
    """Reader of the samples in an index folder (the folder that contains `index.json`)."""

    def __init__(self, index_folder: Path) -> None:
        """Open the manifest and map the arrays.

        Links are resolved once, so the reader keeps reading this index when the links lead to a new one.

        Raises:
            InputError: the index is missing or damaged.
        """
        self._documented = Path(index_folder)
        self.folder = resolve_index(self._documented)
        self.manifest = read_index_manifest(self.folder / "index.json")
        self.sequence_length = self.manifest.sequence_length
        self.end_of_document = self.manifest.end_of_document
        self._train = [self._open_dataset(entry) for entry in self.manifest.train]
        self._validation = {entry.name: self._open_dataset(entry) for entry in self.manifest.validation}
        self._blend_dataset = open_array(self.folder, self.manifest.blend_dataset)
        self._blend_sample = open_array(self.folder, self.manifest.blend_sample)
        counts = [file.documents for file in self.manifest.token_files]
        self._ends = np.cumsum(counts, dtype=np.int64)
        """Number of the first document after each token file."""
        self._open_files: OrderedDict[int, TokenFile] = OrderedDict()

    @property
    def train_samples(self) -> int:
        """Number of training samples that can be read."""
        return len(self._blend_dataset)

    @property
    def train_names(self) -> list[str]:
        """Names of the training datasets. The blend refers to a dataset by its position in this list."""
        return [dataset.entry.name for dataset in self._train]

    @property
    def validation_names(self) -> list[str]:
        """Names of the validation sets, in the manifest's order."""
        return list(self._validation)

    def validation_samples(self, name: str) -> int:
        """Return the number of samples of a validation set.

        Raises:
            SampleRangeError: there is no set of this name.
        """
        return len(self._validation_set(name).shuffle)

    def _damaged(self, what: str) -> InputError:
        return InputError(
            what,
            where=str(self.folder),
            expected="an index that `bloomery index verify` accepts; delete index.json and build the index again",
        )

    def train(self, global_sample: int) -> npt.NDArray[np.int64]:
        """Return the tokens of a training sample, int64 [sequence_length + 1].

        Raises:
            SampleRangeError: there is no such sample.
        """
        dataset, sample = self.locate(global_sample)
        return self._read(self._train[dataset], sample)

    def locate(self, global_sample: int) -> tuple[int, int]:
        """Return (training dataset, sample within it) of the training sample number `global_sample`.

        Raises:
            SampleRangeError: there is no such sample.
        """
        self._check_range(global_sample, self.train_samples, "the training")
        dataset, sample = int(self._blend_dataset[global_sample]), int(self._blend_sample[global_sample])
        if not 0 <= dataset < len(self._train) or sample < 0:
            raise self._damaged(
                f"sample {global_sample} of the training refers to sample {sample} of dataset {dataset}, which does "
                "not exist"
            )
        return dataset, sample

    def validation(self, name: str, sample: int) -> npt.NDArray[np.int64]:
        """Return the tokens of a sample of a validation set, int64 [sequence_length + 1].

        Raises:
            SampleRangeError: there is no such set or sample.
        """
        return self._read(self._validation_set(name), sample)

    def _validation_set(self, name: str) -> _Dataset:
        try:
            return self._validation[name]
        except KeyError:
            raise SampleRangeError(
                f"no validation set {name!r}",
                where=str(self.folder),
                expected=f"one of {', '.join(self._validation)}"
                if self._validation
                else "an index with validation sets (index.validation_share above 0); this index has none",
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
                expected=f"a sample number from 0 to {length - 1}; the index has {length} samples of {what}",
            )

    def _token_file(self, number: int) -> TokenFile:
        found = self._open_files.get(number)
        if found is None:
            entry = self.manifest.token_files[number]
            found = self._open_token_file(entry)
            if len(found.lengths) != entry.documents:
                raise self._damaged(
                    f"{entry.prefix}.idx has {len(found.lengths)} documents, but index.json states {entry.documents}"
                )
            self._open_files[number] = found
            if len(self._open_files) > OPEN_TOKEN_FILES:
                self._open_files.popitem(last=False)
        else:
            self._open_files.move_to_end(number)
        return found

    def _open_token_file(self, entry: TokenFileEntry) -> TokenFile:
        prefix = self.folder / entry.prefix
        try:
            return open_token_file(prefix, check=False)
        except InputError:
            pair = [prefix.with_name(prefix.name + suffix) for suffix in (".idx", ".bin")]
            missing = next((path for path in pair if not path.is_file()), None)
            if missing is None:
                raise
            if (self._documented / "index.json").is_file() and resolve_index(self._documented) != self.folder:
                raise TryAgainError(
                    "a new index replaced the index that this process reads, and this file was removed",
                    where=str(missing),
                    expected="one index during the whole command; run the command again, which reads the new index",
                ) from None
            raise InputError(
                "this token file was deleted, but the index needs it",
                where=str(missing),
                expected="the token files from which the index was built; restore this file, or delete "
                "results/index.json of the run and start the workflow, which links the token files again",
            ) from None

    def train_spans(self, global_sample: int) -> Iterator[DocumentSpan]:
        """Yield the parts of documents that form a training sample, in order.

        Raises:
            SampleRangeError: there is no such sample.
        """
        dataset, sample = self.locate(global_sample)
        return self._spans(self._train[dataset], sample)

    def validation_spans(self, name: str, sample: int) -> Iterator[DocumentSpan]:
        """Yield the parts of documents that form a sample of a validation set, in order.

        Raises:
            SampleRangeError: there is no such set or sample.
        """
        return self._spans(self._validation_set(name), sample)

    def document_tokens(self, token_file: int, document: int) -> npt.NDArray[Any]:
        """Return all tokens of a document, memory-mapped."""
        file = self._token_file(token_file)
        begin, length = int(file.offsets[document]) // file.dtype.itemsize, int(file.lengths[document])
        if not 0 <= begin <= begin + length <= len(file.tokens):
            raise self._damaged(f"{file.prefix.name}.idx places document {document} outside of the .bin file")
        return file.tokens[begin : begin + length]

    def _read(self, dataset: _Dataset, sample: int) -> npt.NDArray[np.int64]:
        tokens = np.empty(self.sequence_length + 1, dtype=np.int64)
        filled = 0
        for span in self._spans(dataset, sample):
            end = filled + span.end - span.begin
            tokens[filled:end] = self.document_tokens(span.token_file, span.document)[span.begin : span.end]
            filled = end
        return tokens

    def _spans(self, dataset: _Dataset, sample: int) -> Iterator[DocumentSpan]:
        self._check_range(sample, len(dataset.shuffle), f"dataset {dataset.entry.name!r}")
        start = int(dataset.shuffle[sample])
        if not 0 <= start < len(dataset.sample_starts):
            raise self._damaged(f"dataset {dataset.entry.name!r} has no start of sample {start}")
        position, begin = (int(value) for value in dataset.sample_starts[start])
        if position < 0 or begin < 0:
            raise self._damaged(f"sample {start} of dataset {dataset.entry.name!r} starts at a negative position")
        wanted = self.sequence_length + 1
        while wanted:
            number, document = self._document(dataset, position)
            tokens = int(self._token_file(number).lengths[document])
            end = min(begin + wanted, tokens)
            # Empty documents are skipped.
            if end > begin:
                yield DocumentSpan(
                    number, document, begin, end, tokens, position // max(dataset.entry.unique_documents, 1)
                )
                wanted -= end - begin
            position, begin = position + 1, 0

    def _document(self, dataset: _Dataset, position: int) -> tuple[int, int]:
        """Return (token file, document in it) at a position of the reading order."""
        if position >= len(dataset.documents):
            raise self._damaged(
                f"the samples of dataset {dataset.entry.name!r} need more documents than the index lists for it"
            )
        document = int(dataset.documents[position])
        number = int(np.searchsorted(self._ends, document, side="right"))
        if document < 0 or number >= len(self._ends):
            raise self._damaged(f"dataset {dataset.entry.name!r} refers to document {document}, which does not exist")
        return number, document - (int(self._ends[number - 1]) if number else 0)
