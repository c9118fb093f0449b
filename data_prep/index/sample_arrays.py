"""Write the arrays of one dataset: documents in reading order, the start of each sample, and the order of the samples.

Documents are laid end to end. Sample i holds the sequence_length + 1 tokens from token i * sequence_length on, so
consecutive samples share one token (Megatron's rule). `data_prep.index.order` defines the order of documents and
samples.

The largest of 46 languages at 341.6 B tokens is English, with 150 M documents and 50 M samples of 2048 tokens. It needs
1.2 GB of memory for the rows, 0.5 GB for the rows that are shuffled at a time, and tens of MB for the pieces. Its
1.2 GB of arrays are written in about 5 s; the disk limits the speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from bloomery.contracts.index_manifest import DatasetEntry
from data_prep.index import _index
from data_prep.index.arrays import write_array, write_arrays
from data_prep.index.order import CorpusOrder, EpochsOrder, MegatronOrder, Order
from data_prep.index.split import Rows, numbers_of, tokens_of


def narrow(below: int) -> np.dtype[Any]:
    """Return uint32 if all numbers less than `below` fit into it, else int64."""
    return np.dtype("<u4") if below <= 1 << 32 else np.dtype("<i8")


@dataclass(frozen=True)
class Plan:
    """Settings that all datasets of one index share."""

    index: Path
    """Folder of the index."""
    folder: str
    """Folder of the arrays, relative to `index`."""
    sequence_length: int
    seed: int
    order: str
    """Order of the training datasets, `epochs` or `megatron`."""
    documents: int
    """Number of documents in all token files."""


def write_train(plan: Plan, name: str, language: str, rows: Rows, quota: int, identity: str) -> DatasetEntry:
    """Write the arrays of the training dataset `name`, which hold at least `quota` samples, and return its entry."""
    tokens, length = int(tokens_of(rows).sum()), plan.sequence_length
    order: Order
    if plan.order == "megatron":
        order = MegatronOrder(rows, tokens, length, quota, plan.seed)
    else:
        order = EpochsOrder(rows, tokens, length, quota, f"train/{name}", plan.seed)
    return _write(plan, "train", name, language, (len(rows), tokens), order, order.samples, identity)


def write_validation(plan: Plan, language: str, rows: Rows, most: int, identity: str) -> DatasetEntry | None:
    """Write the arrays of a validation set of at most `most` samples and return its entry.

    Return None if the documents do not fill one sample.
    """
    tokens = int(tokens_of(rows).sum())
    order = CorpusOrder(rows, tokens, plan.sequence_length, most)
    kept = min(order.samples, most)
    if kept == 0:
        return None
    return _write(plan, "validation", language, language, (len(rows), tokens), order, kept, identity)


def _write(
    plan: Plan, kind: str, name: str, language: str, unique: tuple[int, int], order: Order, kept: int, identity: str
) -> DatasetEntry:
    stem = f"{plan.folder}/{kind}/{quote(name, safe='')}"
    numbers, positions, shuffled = narrow(plan.documents), narrow(order.entries), narrow(order.samples)

    def pieces() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        walk = _index.SampleWalk(plan.sequence_length, order.samples, 0, 0)
        for rows in order.documents():
            yield numbers_of(rows).astype(numbers), walk.advance(rows, positions.itemsize == 8)

    documents, starts = write_arrays(
        plan.index,
        [
            (f"{stem}.documents.npy", numbers, (order.entries,)),
            (f"{stem}.sample_starts.npy", positions, (order.samples + 1, 2)),
        ],
        pieces(),
    )
    shuffle = write_array(plan.index, f"{stem}.shuffle.npy", shuffled, (kept,), order.shuffle())
    return DatasetEntry(
        name=name,
        language=language,
        unique_documents=unique[0],
        unique_tokens=unique[1],
        epochs=order.epochs,
        samples=kept,
        identity=identity,
        documents=documents,
        sample_starts=starts,
        shuffle=shuffle,
    )
