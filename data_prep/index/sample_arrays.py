"""The arrays of one dataset: documents in reading order, where samples start in them, and the order of the samples.

Documents are laid end to end; sample i holds the sequence_length + 1 tokens from token i * sequence_length on, so
neighbours share one token (Megatron's rule). `data_prep.index.order` says in which order documents and samples come.

Cost of the largest of 46 languages at 341.6 B tokens (English, 150 M documents, 50 M samples of 2048 tokens): rows 1.2
GB, the shuffle's band 0.5, pieces of some tens of MB; 1.2 GB of arrays in about 5 s, by the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from bloomery.contracts.index import DatasetEntry
from data_prep.index import _index
from data_prep.index.arrays import write_array, write_arrays
from data_prep.index.order import CorpusOrder, EpochsOrder, MegatronOrder, Order
from data_prep.index.split import Rows, numbers_of, tokens_of


def narrow(below: int) -> np.dtype[Any]:
    """uint32 where every number is below 2^32, else int64."""
    return np.dtype("<u4") if below <= 1 << 32 else np.dtype("<i8")


@dataclass(frozen=True)
class Plan:
    """What every dataset of one index shares."""

    index: Path
    folder: str
    """Of the arrays, relative to `index`."""
    sequence_length: int
    seed: int
    order: str
    """`epochs` or `megatron`."""
    documents: int
    """In all token files."""


def write_train(plan: Plan, name: str, language: str, rows: Rows, quota: int, identity: str) -> DatasetEntry:
    """Arrays of the training dataset `name` of at least `quota` samples."""
    tokens, length = int(tokens_of(rows).sum()), plan.sequence_length
    order: Order
    if plan.order == "megatron":
        order = MegatronOrder(rows, tokens, length, quota, plan.seed)
    else:
        order = EpochsOrder(rows, tokens, length, quota, f"train/{name}", plan.seed)
    return _write(plan, "train", name, language, (len(rows), tokens), order, order.samples, identity)


def write_validation(plan: Plan, language: str, rows: Rows, most: int, identity: str) -> DatasetEntry | None:
    """Arrays of a validation set of at most `most` samples; None when the documents do not fill one sample."""
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
