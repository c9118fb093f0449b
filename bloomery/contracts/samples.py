"""Reading samples of the index: what training feeds on and what the index's own checks and traces read.

A sample is `sequence_length + 1` consecutive tokens of a dataset's documents laid end to end; it crosses documents and
token files. Everything is memory-mapped: a reader costs a few pages a sample, whatever the size of the corpus, and
every rank of a node shares them. At most `OPEN_TOKEN_FILES` pairs are open at once, because each holds two file
descriptors and a corpus of 1.6 TB has thousands of pairs.
"""

from __future__ import annotations

from collections import OrderedDict
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
class _Dataset:
    entry: DatasetEntry
    documents: npt.NDArray[np.int32]
    sample_starts: npt.NDArray[np.int64]
    shuffle: npt.NDArray[np.int64]


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

    def _read(self, dataset: _Dataset, sample: int) -> npt.NDArray[np.int64]:
        self._check_range(sample, len(dataset.shuffle), f"{dataset.entry.name!r}")
        position, skip = (int(value) for value in dataset.sample_starts[dataset.shuffle[sample]])
        tokens = np.empty(self.sequence_length + 1, dtype=np.int64)
        filled = 0
        while filled < len(tokens):
            piece = self._document(dataset, position)[skip : skip + len(tokens) - filled]
            tokens[filled : filled + len(piece)] = piece
            filled += len(piece)
            position, skip = position + 1, 0
        return tokens

    def _document(self, dataset: _Dataset, position: int) -> npt.NDArray[Any]:
        if position >= len(dataset.documents):
            raise InputError(
                f"samples of {dataset.entry.name!r} reach beyond its documents",
                where=str(self.folder),
                expected="an index that `bloomery index verify` accepts",
            )
        number, document = (int(value) for value in dataset.documents[position])
        file = self._token_file(number)
        begin = int(file.offsets[document]) // file.dtype.itemsize
        return file.tokens[begin : begin + int(file.lengths[document])]
