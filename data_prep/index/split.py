"""Deals documents to training and validation, per language, by the hash that a document's id is.

A document is held out when the first 64 bits of its id, as a fraction of 2^64, lie below the validation share: the same
document is held out whatever else the corpus holds. A language with fewer than two documents, or whose documents would
all be held out, goes to training whole.

Memory: documents are spilled to one file per language and part, 12 bytes each (file, document, tokens), so that the
build needs memory for its largest language only. 500 M documents: 6 GB on disk, one pass over 40 GB of sidecars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import explained
from bloomery.base.errors import InputError
from bloomery.contracts.index import TokenFile, sidecar_path
from bloomery.contracts.shard import iterate_batches

Rows = npt.NDArray[np.int32]
"""int32 [documents, 3]: token file number, document number in it, tokens (end of document counted)."""

BATCH_ROWS = 1 << 18


def held_out(hashes: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    """Which documents are validation: hash / 2^64 < share, exactly; bool [n]."""
    below = math.ceil(Fraction(share) * (1 << 64))
    if below == 0:
        return np.zeros(len(hashes), dtype=np.bool_)
    return hashes <= np.uint64(below - 1)


class Spill:
    """Documents per language, training and validation apart, in files below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[tuple[str, bool], BinaryIO] = {}
        self._stack = ExitStack()

    def add(self, number: int, prefix: Path, file: TokenFile, share: float) -> None:
        """Deal the documents of token file `number`. Raises InputError when sidecar and `.idx` disagree."""
        begin = 0
        for batch in iterate_batches(
            sidecar_path(prefix), ["language", "first_token", "tokens", "split_key"], BATCH_ROWS
        ):
            end = begin + batch.num_rows
            lengths = file.lengths[begin:end]
            same = np.array_equal(lengths, batch.column("tokens")) and np.array_equal(
                file.offsets[begin:end], np.asarray(batch.column("first_token")) * file.dtype.itemsize
            )
            if not same:
                raise InputError("its sidecar speaks of other documents", where=f"{prefix}.idx")
            rows = np.empty((batch.num_rows, 3), dtype=np.int32)
            rows[:, 0], rows[:, 1], rows[:, 2] = number, np.arange(begin, end), lengths
            validation = held_out(np.asarray(batch.column("split_key")), share)
            codes = batch.column("language").dictionary_encode()
            # 16-bit keys sort by radix, in linear time, and stably: each group stays in corpus order.
            keys = (2 * np.asarray(codes.indices) + validation).astype(np.uint16)
            order = np.argsort(keys, kind="stable")
            ends = np.searchsorted(keys[order], np.arange(2 * len(codes.dictionary)), side="right")
            for key, group in enumerate(np.split(order, ends[:-1])):
                self._append(codes.dictionary[key // 2].as_py(), key % 2 == 1, rows[group])
            begin = end
        if begin != len(file.lengths):
            raise InputError(
                f"has {len(file.lengths)} documents", where=f"{prefix}.idx", expected=f"{begin}, by its sidecar"
            )

    def _append(self, language: str, validation: bool, rows: Rows) -> None:
        key = (language, validation)
        if key not in self._files:
            path = self.folder / f"{len(self._files)}.rows"
            self._files[key] = self._stack.enter_context(path.open("w+b"))
        with explained(self.folder):
            self._files[key].write(np.ascontiguousarray(rows).data)

    def languages(self) -> Iterator[tuple[str, Rows, Rows]]:
        """(language, training rows, validation rows) in the order of codes, each in corpus order."""
        for language in sorted({language for language, _ in self._files}):
            train, validation = self._read(language, False), self._read(language, True)
            if len(validation) and len(train) == 0:
                train, validation = validation, train
            yield language, train, validation

    def _read(self, language: str, validation: bool) -> Rows:
        handle = self._files.get((language, validation))
        if handle is None:
            return np.empty((0, 3), dtype=np.int32)
        handle.flush()
        handle.seek(0)
        return np.fromfile(handle, dtype=np.int32).reshape(-1, 3)

    def close(self) -> None:
        """Close the files."""
        self._stack.close()
