"""Checks the arrays of an index's datasets: each document once an epoch, samples that follow from them, a true shuffle.

A document is in one dataset only: what is held out is never trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import track
from bloomery.contracts.index import DatasetEntry, IndexManifest, verify_array
from data_prep.index import _index
from data_prep.index.arrays import CHUNK
from data_prep.index.order import BLOCK

Lengths = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]
"""A bit a document of the index."""


def _fail(what: str, where: Path, expected: str | None = None) -> CheckFailedError:
    return CheckFailedError(what, where=str(where), expected=expected)


def check_datasets(folder: Path, manifest: IndexManifest, lengths: Lengths) -> None:
    """Check the arrays of all datasets.

    Args:
        folder: of the index.
        manifest: its index.json.
        lengths: tokens of every document, int32 [documents of all token files].

    Raises:
        CheckFailedError: with what does not hold, and where.
        InputError: an array that cannot be read or has another form.
    """
    taken = np.zeros((len(lengths) + 63) // 64, dtype=np.uint64)
    kinds = [(entry, manifest.order) for entry in manifest.train] + [(entry, "corpus") for entry in manifest.validation]
    for entry, order in track(kinds, "verify datasets", len(kinds), "datasets"):
        documents = verify_array(folder, entry.documents)
        where = folder / entry.documents.path
        own = _documents(documents, entry, order, lengths, where)
        twice = np.flatnonzero(own & taken)
        if len(twice):
            number = int(twice[0]) * 64 + int(own[twice[0]] & taken[twice[0]]).bit_length() - 1
            raise _fail(f"document {number} is in another dataset, too", where, "every document in one dataset")
        taken |= own
        starts = verify_array(folder, entry.sample_starts)
        _starts(documents, starts, manifest.sequence_length, lengths, folder / entry.sample_starts.path)
        if order == "epochs" and int(starts[-1, 0]) + 1 != len(documents):
            raise _fail(f"{len(documents)} entries", where, f"{int(starts[-1, 0]) + 1}, by the sample starts")
        shuffle = verify_array(folder, entry.shuffle)
        _shuffle(shuffle, entry, order, len(starts) - 1, manifest.sequence_length, folder / entry.shuffle.path)


def _documents(documents: npt.NDArray[Any], entry: DatasetEntry, order: str, lengths: Lengths, where: Path) -> Bits:
    """Check the document array; returns which documents it reads."""
    unique, whole = entry.unique_documents, entry.epochs * entry.unique_documents
    if len(documents) <= whole - unique or (order != "epochs" and len(documents) != whole):
        raise _fail(f"{len(documents)} entries", where, f"{entry.epochs} epochs of {unique}")
    first = documents
    if order == "megatron":
        # Its epochs are mixed: each document as often as there are epochs, wherever.
        first, counts = np.unique(documents, return_counts=True)
        if len(first) != unique or np.any(counts != entry.epochs):
            raise _fail("not every document is read once an epoch", where, f"{entry.epochs} epochs of {unique}")
    check = _index.EpochCheck(len(lengths), unique)
    tokens = 0
    for begin in range(0, len(first), CHUNK):
        chunk = first[begin : begin + CHUNK]
        bad = check.advance(np.ascontiguousarray(chunk))
        if bad >= 0:
            raise _fail(
                f"document {chunk[bad]} at {begin + bad}: there is none, or its epoch has read it, or no other has",
                where,
                f"numbers below {len(lengths)}, each of {unique} documents once an epoch",
            )
        if begin < unique:
            tokens += int(lengths[chunk[: unique - begin]].sum(dtype=np.int64))
    if len(documents) >= unique and tokens != entry.unique_tokens:
        raise _fail(f"{tokens} tokens in an epoch", where, f"{entry.unique_tokens}")
    return check.members()


def _starts(
    documents: npt.NDArray[Any], starts: npt.NDArray[Any], sequence_length: int, lengths: Lengths, where: Path
) -> None:
    walk = _index.SampleWalk(sequence_length, len(starts) - 1, 0, 0)
    done = 0
    for begin in range(0, len(documents), CHUNK):
        # Only the tokens of a row are walked over.
        rows = lengths[documents[begin : begin + CHUNK]].astype(np.uint64)
        due = walk.advance(rows, starts.dtype.itemsize == 8)
        if not np.array_equal(starts[done : done + len(due)], due):
            raise _fail("sample starts do not follow from the documents", where)
        done += len(due)
    if done != len(starts):
        raise _fail(f"{len(starts) - 1} samples", where, f"{done - 1}: the documents end")


def _shuffle(
    shuffle: npt.NDArray[Any], entry: DatasetEntry, order: str, samples: int, sequence_length: int, where: Path
) -> None:
    if len(shuffle) != entry.samples or not 0 < len(shuffle) <= samples:
        raise _fail(f"{len(shuffle)} samples", where, f"{entry.samples} of {samples}")
    seen = np.zeros(samples, dtype=np.bool_)
    for begin in range(0, len(shuffle), CHUNK):
        chunk = shuffle[begin : begin + CHUNK].astype(np.int64)
        if chunk.min() < 0 or chunk.max() >= samples:
            raise _fail(f"sample {chunk.max()} is out of range", where, f"0 to {samples - 1}")
        places = np.arange(begin, begin + len(chunk), dtype=np.int64)
        if order == "corpus" and np.any(chunk != places * samples // len(shuffle)):
            raise _fail("samples are not spread evenly over the held-out text", where)
        if order == "epochs" and np.any(
            _blocks(chunk, entry, sequence_length) != _blocks(places, entry, sequence_length)
        ):
            raise _fail("samples leave their block", where)
        seen[chunk] = True
    if order != "corpus" and not (len(shuffle) == samples and seen.all()):
        raise _fail("not a permutation of the samples", where)


def _blocks(samples: npt.NDArray[np.int64], entry: DatasetEntry, sequence_length: int) -> npt.NDArray[np.int64]:
    """First sample of the block that each sample is shuffled in."""
    epochs = samples * sequence_length // entry.unique_tokens
    first = -(-epochs * entry.unique_tokens // sequence_length)
    return first + (samples - first) // BLOCK * BLOCK
