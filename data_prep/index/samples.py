"""Sample and shuffle arrays of one dataset, without a loop over documents.

Documents are laid end to end, epoch after epoch, each epoch in its own random order; sample i holds the
sequence_length + 1 tokens from token i * sequence_length on, so neighbours share one token (Megatron's rule). Samples
are shuffled within their epoch: no document is read a second time before all were read once. (Megatron shuffles the
epochs into each other and treats the last apart; here every epoch but the last is exact.)

Cost of the largest of 46 languages at 341.6 B tokens (English, 150 M documents, 50 M samples of 2048 tokens): rows 1.8
GB, order 0.6, documents 1.2, their ends 1.2, shuffle 0.4: about 4 GB at the peak and 20 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from bloomery.base.digest import seed_for
from bloomery.contracts.index import DatasetEntry
from data_prep.index.arrays import CHUNK, write_array
from data_prep.index.split import Rows


def epochs_for(tokens: int, sequence_length: int, samples: int) -> int:
    """Least number of epochs of `tokens` tokens (at least 1) that hold `samples` samples."""
    return max(1, -(-(samples * sequence_length + 1) // tokens))


def samples_in(tokens: int, sequence_length: int) -> int:
    """Whole samples in `tokens` tokens: each needs one token beyond its inputs."""
    return max(0, (tokens - 1) // sequence_length)


def generator(seed: int, name: str) -> np.random.Generator:
    """PCG64 keyed by a name: what is drawn does not depend on what else is drawn."""
    return np.random.Generator(np.random.PCG64(seed_for(seed, name)))


def document_order(documents: int, epochs: int, rng: np.random.Generator | None) -> npt.NDArray[np.int32]:
    """Row numbers, int32 [epochs * documents]: every epoch all documents, shuffled by `rng` (None: as they are)."""
    order = np.broadcast_to(np.arange(documents, dtype=np.int32), (epochs, documents))
    if rng is None:
        return order.reshape(-1)
    if epochs == 1:
        single = np.arange(documents, dtype=np.int32)
        rng.shuffle(single)
        return single
    shuffled: npt.NDArray[np.int32] = rng.permuted(order, axis=1)
    return shuffled.reshape(-1)


def sample_starts(
    lengths: npt.NDArray[np.int32], sequence_length: int, samples: int, chunk: int = CHUNK
) -> Iterator[npt.NDArray[np.int64]]:
    """(position of the document, token offset in it) where samples 0..`samples` start: int64 [<= chunk, 2] pieces."""
    ends = np.cumsum(lengths, dtype=np.int64)
    for begin in range(0, samples + 1, chunk):
        targets = np.arange(begin, min(begin + chunk, samples + 1), dtype=np.int64) * sequence_length
        positions = np.searchsorted(ends, targets, side="right")
        yield np.stack([positions, targets - (ends[positions] - lengths[positions])], axis=1)


def sample_order(
    tokens: int, epochs: int, sequence_length: int, samples: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """A permutation of the samples, int64 [samples], that shuffles those which start in the same epoch."""
    order = np.arange(samples, dtype=np.int64)
    starts = -(-(np.arange(epochs + 1, dtype=np.int64) * tokens) // sequence_length)
    bounds = np.minimum(starts, samples)
    for epoch in np.flatnonzero(np.diff(bounds) > 1):
        rng.shuffle(order[bounds[epoch] : bounds[epoch + 1]])
    return order


@dataclass(frozen=True)
class Plan:
    """What every dataset of one index shares."""

    index: Path
    folder: str
    """Of the arrays, relative to `index`."""
    sequence_length: int
    seed: int


def write_train(plan: Plan, name: str, language: str, rows: Rows, quota: int) -> DatasetEntry:
    """Arrays of the training dataset `name` of at least `quota` samples."""
    tokens = int(rows[:, 2].sum(dtype=np.int64))
    epochs = epochs_for(tokens, plan.sequence_length, quota)
    samples = samples_in(epochs * tokens, plan.sequence_length)
    order = document_order(len(rows), epochs, generator(plan.seed, f"index/train/{name}/documents"))
    shuffle = sample_order(
        tokens, epochs, plan.sequence_length, samples, generator(plan.seed, f"index/train/{name}/samples")
    )
    return _write(plan, "train", name, language, rows, order, epochs, samples, shuffle)


def write_validation(plan: Plan, language: str, rows: Rows, most: int) -> DatasetEntry | None:
    """Arrays of a validation set: one epoch in corpus order, at most `most` samples, spread evenly over it.

    None when the held-out documents do not fill one sample.
    """
    available = samples_in(int(rows[:, 2].sum(dtype=np.int64)), plan.sequence_length)
    kept = min(available, most)
    if kept == 0:
        return None
    shuffle = np.arange(kept, dtype=np.int64) * available // kept
    order = document_order(len(rows), 1, None)
    return _write(plan, "validation", language, language, rows, order, 1, available, shuffle)


def _write(
    plan: Plan,
    kind: str,
    name: str,
    language: str,
    rows: Rows,
    order: npt.NDArray[np.int32],
    epochs: int,
    available: int,
    shuffle: npt.NDArray[np.int64],
) -> DatasetEntry:
    stem = f"{plan.folder}/{kind}/{quote(name, safe='')}"
    documents = (rows[order[begin : begin + CHUNK], :2] for begin in range(0, len(order), CHUNK))
    starts = sample_starts(rows[order, 2], plan.sequence_length, available)
    return DatasetEntry(
        name=name,
        language=language,
        unique_documents=len(rows),
        unique_tokens=int(rows[:, 2].sum(dtype=np.int64)),
        epochs=epochs,
        samples=len(shuffle),
        documents=write_array(plan.index, f"{stem}.documents.npy", "<i4", (len(order), 2), documents),
        sample_starts=write_array(plan.index, f"{stem}.sample_starts.npy", "<i8", (available + 1, 2), starts),
        shuffle=write_array(plan.index, f"{stem}.shuffle.npy", "<i8", (len(shuffle),), [shuffle]),
    )
