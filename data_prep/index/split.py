"""Split the documents of each language and source into training and validation by their split keys.

A split key is the first 64 bits of an id: the id of the document, or of the best document in its cluster of duplicates.
A document is held out if its split key, as a fraction of 2^64, is below the validation share. The decision therefore
does not depend on the rest of the corpus. If all documents of a language would be held out, all of them are used for
training instead.

The split reads three columns of each sidecar and the lengths in each `.idx`, together 16 bytes per document. Memory
holds one row of 8 bytes per document until the arrays of its dataset are written. 500 M documents take 4 GB of memory
and one pass of a few seconds over 8 GB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.errors import InputError
from bloomery.contracts.index import TokenFile
from data_prep.formats.shard import open_table
from data_prep.formats.sidecar import sidecar_path
from data_prep.index import _index

Rows = npt.NDArray[np.uint64]
"""One 64-bit word per document: its number among all documents of the index (33 bits) and its tokens (31 bits)."""

TOKEN_BITS = np.uint64(31)
BATCH_ROWS = 1 << 18
_COLUMNS = ["language", "source", "split_key"]
_ENCODE_AGAIN = "Run `bloomery encode` or `bloomery index adopt` again, which write the token files and their sidecar"


class TextSize(NamedTuple):
    """Size of the text that one source has in one language."""

    documents: int
    tokens: int
    """Number of tokens, with end-of-document tokens."""
    longest: int
    """Number of tokens of the longest document."""


def numbers_of(rows: Rows) -> npt.NDArray[np.uint64]:
    """Return the document number of each row."""
    return rows >> TOKEN_BITS


def tokens_of(rows: Rows) -> npt.NDArray[np.uint64]:
    """Return the number of tokens of each row."""
    return rows & np.uint64((1 << int(TOKEN_BITS)) - 1)


def below(share: float) -> int:
    """Return the smallest split key that is not held out. A key is below it exactly if key / 2^64 < share.

    The result is 2^64 if `share` is 1, which holds out every document.
    """
    return math.ceil(Fraction(share) * (1 << 64))


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches. A thread reads the next batch while the caller processes the current one."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        waiting = reader.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = reader.submit(next, batches, None)
            yield batch


class TrainValidationSplit:
    """Training and held-out documents, grouped by language and source, in corpus order."""

    def __init__(self, share: float) -> None:
        """Create an empty split that holds out the share `share` of the documents."""
        self._below = below(share)
        self._kernel = _index.Deal()
        self._languages: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._pairs: dict[tuple[int, int], int] = {}
        self._files: list[list[int]] = []
        """For each group of the kernel, the numbers of the token files that hold documents of the group."""

    def add(self, number: int, first: int, prefix: Path, file: TokenFile) -> None:
        """Assign the documents of token file `number`, whose first one is document `first` of the index.

        Raises:
            InputError: the sidecar is damaged or describes another number of documents or tokens.
        """
        path, begin = sidecar_path(prefix), 0
        before = self._kernel.groups()
        with open_table(path, dictionary=["language", "source"]) as table:
            if table.metadata.num_rows != len(file.lengths):
                raise InputError(
                    f"the file has {len(file.lengths)} documents",
                    where=f"{prefix}.idx",
                    expected=f"{table.metadata.num_rows} documents, as the sidecar (the table of the "
                    f"documents) states. {_ENCODE_AGAIN}",
                )
            for batch in _ahead(table.iter_batches(batch_size=BATCH_ROWS, columns=_COLUMNS)):
                end = begin + batch.num_rows
                self._batch(first + begin, np.array(file.lengths[begin:end], dtype=np.int32), batch, path)
                begin = end
        after = self._kernel.groups()
        tokens = int(after[:, 1].sum() - before[:, 1].sum())
        if tokens != len(file.tokens):
            raise InputError(
                f"the lengths of the documents sum to {tokens} tokens",
                where=f"{prefix}.idx",
                expected=f"{len(file.tokens)} tokens, the number in the .bin. {_ENCODE_AGAIN}",
            )
        self._files += [[] for _ in range(len(after) - len(self._files))]
        for group in np.flatnonzero(after[:, 0] > np.pad(before[:, 0], (0, len(after) - len(before)))):
            self._files[group].append(number)

    def _batch(self, first: int, lengths: npt.NDArray[np.int32], batch: pa.RecordBatch, path: Path) -> None:
        if any(column.null_count for column in batch.columns):
            raise InputError(
                "a document has no value in the column `language`, `source` or `split_key`",
                where=str(path),
                expected=f"a value in these three columns in every row. {_ENCODE_AGAIN}",
            )
        language, source, keys = batch.columns
        languages = [self._languages.setdefault(code, len(self._languages)) for code in language.dictionary.to_pylist()]
        sources = [self._sources.setdefault(name, len(self._sources)) for name in source.dictionary.to_pylist()]
        pairs = [[self._pairs.setdefault((code, name), len(self._pairs)) for name in sources] for code in languages]
        try:
            self._kernel.add(
                first,
                lengths,
                np.asarray(language.indices),
                np.asarray(source.indices),
                np.asarray(keys),
                np.array(pairs, dtype=np.int32).reshape(len(languages), len(sources)),
                self._below % (1 << 64),
                self._below >= 1 << 64,
            )
        except ValueError as error:
            raise InputError(
                f"the documents cannot be split into training and validation: {error}",
                where=str(path),
                expected=f"an undamaged sidecar. {_ENCODE_AGAIN}",
            ) from error

    def texts(self, *, held_out: bool = False) -> dict[str, dict[str, TextSize]]:
        """Return the size of the training text, or of the held-out text, by language and source, sorted by name."""
        found = {}
        for language in sorted(self._languages):
            train, apart = self._texts(language, False), self._texts(language, True)
            if not train:
                train, apart = apart, {}
            found[language] = apart if held_out else train
        return {language: texts for language, texts in found.items() if texts}

    def _texts(self, language: str, held_out: bool) -> dict[str, TextSize]:
        counts = self._kernel.groups()
        found = {}
        for source in sorted(self._sources):
            group = self._group(language, source, held_out)
            if group < len(counts) and counts[group, 0]:
                found[source] = TextSize(*counts[group].tolist())
        return found

    def _group(self, language: str, source: str, held_out: bool) -> int:
        """Return the number of the kernel's group for a language, a source and a side of the split.

        If no document has this language and source, the number is beyond the last group.
        """
        pair = self._pairs.get((self._languages[language], self._sources[source]), len(self._pairs))
        return 2 * pair + held_out

    def _groups(self, language: str, sources: Iterable[str], held_out: bool) -> list[int]:
        held_out = held_out or not self._texts(language, False)
        return [self._group(language, source, held_out) for source in sources]

    def files(self, language: str, sources: Sequence[str], *, held_out: bool = False) -> list[int]:
        """Return the numbers of the token files that hold the documents of these sources."""
        groups = self._groups(language, sources, held_out)
        return sorted({number for group in groups for number in self._files[group]})

    def take(self, language: str, sources: Sequence[str], *, held_out: bool = False) -> Rows:
        """Return the documents of these sources, one source after the other, each in corpus order.

        This frees the documents' memory, so each source can be taken only once.
        """
        return self._kernel.take(self._groups(language, sources, held_out))
