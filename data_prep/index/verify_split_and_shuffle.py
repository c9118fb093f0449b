"""Check the arrays of an index's datasets.

Each epoch must read each document once, the sample starts must follow from the documents, and the shuffle must be a
permutation. Every document must be in one dataset only, so that training never reads a held-out document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.progress import track
from bloomery.contracts.index import verify_array
from bloomery.contracts.index_manifest import DatasetEntry, IndexManifest
from data_prep.index import _index
from data_prep.index.arrays import CHUNK
from data_prep.index.index_error import index_error
from data_prep.index.order import BLOCK

Lengths = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]
"""One bit per document of the index."""


def check_datasets(folder: Path, manifest: IndexManifest, lengths: Lengths) -> None:
    """Check the arrays of all datasets.

    Args:
        folder: folder of the index.
        manifest: index.json of that folder.
        lengths: number of tokens of every document, int32 [documents of all token files].

    Raises:
        CheckFailedError: a check fails. The error states what is wrong and where.
        InputError: an array cannot be read, or has another type or shape than index.json states.
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
            raise index_error(
                f"document {number} is also in another dataset", where, "each document in only one dataset"
            )
        taken |= own
        starts = verify_array(folder, entry.sample_starts)
        _starts(documents, starts, manifest.sequence_length, lengths, folder / entry.sample_starts.path)
        if order == "epochs" and int(starts[-1, 0]) + 1 != len(documents):
            raise index_error(
                f"the array of document numbers has {len(documents)} entries",
                where,
                f"{int(starts[-1, 0]) + 1} entries, as the array of sample starts requires",
            )
        shuffle = verify_array(folder, entry.shuffle)
        _shuffle(shuffle, entry, order, len(starts) - 1, manifest.sequence_length, folder / entry.shuffle.path)


def _documents(documents: npt.NDArray[Any], entry: DatasetEntry, order: str, lengths: Lengths, where: Path) -> Bits:
    """Check the document array and return the documents that it reads, one bit per document of the index."""
    unique, whole = entry.unique_documents, entry.epochs * entry.unique_documents
    if (
        unique < 1
        or entry.unique_tokens < 1
        or len(documents) <= whole - unique
        or (order != "epochs" and len(documents) != whole)
    ):
        raise index_error(
            f"the array of document numbers has {len(documents)} entries",
            where,
            f"entries for {entry.epochs} epochs of {unique} documents with {entry.unique_tokens} tokens, and at least "
            "one of each",
        )
    first = documents
    if order == "megatron":
        # Order `megatron` mixes its epochs, so only the number of occurrences of each document can be checked.
        first, counts = np.unique(documents, return_counts=True)
        if len(first) != unique or np.any(counts != entry.epochs):
            raise index_error(
                "not every document is read once per epoch", where, f"{entry.epochs} epochs of {unique} documents"
            )
    check = _index.EpochCheck(len(lengths), unique)
    tokens = 0
    for begin in range(0, len(first), CHUNK):
        chunk = first[begin : begin + CHUNK]
        bad = check.advance(np.ascontiguousarray(chunk))
        if bad >= 0:
            raise index_error(
                f"document {chunk[bad]} at position {begin + bad} does not exist, is repeated in its epoch, or is not "
                "in the first epoch",
                where,
                f"document numbers below {len(lengths)}, and each of {unique} documents once per epoch",
            )
        if begin < unique:
            tokens += int(lengths[chunk[: unique - begin]].sum(dtype=np.int64))
    if len(documents) >= unique and tokens != entry.unique_tokens:
        raise index_error(
            f"the documents of the dataset have {tokens} tokens",
            where,
            f"{entry.unique_tokens} tokens, as index.json states",
        )
    return check.members()


def _starts(
    documents: npt.NDArray[Any], starts: npt.NDArray[Any], sequence_length: int, lengths: Lengths, where: Path
) -> None:
    walk = _index.SampleWalk(sequence_length, len(starts) - 1, 0, 0)
    done = 0
    for begin in range(0, len(documents), CHUNK):
        # SampleWalk reads only the number of tokens in a row (the low bits), so the lengths can be used as rows.
        rows = lengths[documents[begin : begin + CHUNK]].astype(np.uint64)
        due = walk.advance(rows, starts.dtype.itemsize == 8)
        if not np.array_equal(starts[done : done + len(due)], due):
            raise index_error(
                "the sample starts do not follow from the lengths of the documents",
                where,
                "the starts that the documents and their lengths give",
            )
        done += len(due)
    if done != len(starts):
        raise index_error(
            f"the array has starts of {len(starts) - 1} samples",
            where,
            f"starts of {done - 1} samples, the number that the documents contain",
        )


def _shuffle(
    shuffle: npt.NDArray[Any], entry: DatasetEntry, order: str, samples: int, sequence_length: int, where: Path
) -> None:
    if len(shuffle) != entry.samples or not 0 < len(shuffle) <= samples:
        raise index_error(
            f"the shuffle has {len(shuffle)} samples", where, f"{entry.samples} of the {samples} samples of the dataset"
        )
    seen = np.zeros(samples, dtype=np.bool_)
    for begin in range(0, len(shuffle), CHUNK):
        chunk = shuffle[begin : begin + CHUNK].astype(np.int64)
        outside = (chunk < 0) | (chunk >= samples)
        if outside.any():
            first = int(chunk[outside.argmax()])
            raise index_error(f"sample {first} is out of range", where, f"samples 0 to {samples - 1}")
        places = np.arange(begin, begin + len(chunk), dtype=np.int64)
        if order == "corpus" and np.any(chunk != places * samples // len(shuffle)):
            raise index_error(
                "the samples are not spread evenly over the held-out text", where, "equal distances between samples"
            )
        if order == "epochs" and np.any(
            _blocks(chunk, entry, sequence_length) != _blocks(places, entry, sequence_length)
        ):
            raise index_error(
                "a sample is shuffled out of its block", where, f"a shuffle within blocks of {BLOCK} samples"
            )
        seen[chunk] = True
    if order != "corpus" and not (len(shuffle) == samples and seen.all()):
        raise index_error("the shuffle is not a permutation of the samples", where, "each sample of the dataset once")


def _blocks(samples: npt.NDArray[np.int64], entry: DatasetEntry, sequence_length: int) -> npt.NDArray[np.int64]:
    """Return, for each sample, the first sample of the block within which it is shuffled."""
    epochs = samples * sequence_length // entry.unique_tokens
    first = -(-epochs * entry.unique_tokens // sequence_length)
    return first + (samples - first) // BLOCK * BLOCK
