"""Checks an index against everything it promises; the first thing that does not hold is named.

Token files: header, sizes, offsets that follow from lengths, last document, digests of `.idx` and `.bin`, every token
below the vocabulary's size, an end-of-document token at the end of each document. Arrays: digest, type, shape; document
and sample numbers in range; sample starts on a strictly rising path of whole samples; the shuffle of a training set a
permutation. Blend: datasets and samples in range, each sample of a quota once.

Reads the whole index once (341.6 B tokens: 1.4 TB, by the disk's speed), in pieces of some tens of MB; arrays of one
dataset are held at most as bits.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.digest import digest_file
from bloomery.base.errors import BloomeryError, CheckFailedError
from bloomery.base.progress import track
from bloomery.contracts.index import (
    DatasetEntry,
    IndexManifest,
    TokenFile,
    TokenFileEntry,
    open_array,
    open_token_file,
    read_index_manifest,
    token_dtype,
    verify_array,
)
from data_prep.index.arrays import CHUNK


def verify_index(folder: Path) -> dict[str, Any]:
    """Check the index in `folder`; returns what it holds.

    Raises:
        CheckFailedError: something missing, damaged, swapped or inconsistent, with what and where.
    """
    try:
        manifest = read_index_manifest(folder / "index.json")
        lengths = [
            _token_file(folder, entry, manifest)
            for entry in track(manifest.token_files, "verify token files", len(manifest.token_files), "files")
        ]
        datasets = [*manifest.train, *manifest.validation]
        for entry in track(datasets, "verify datasets", len(datasets), "datasets"):
            _dataset(folder, entry, lengths, manifest.sequence_length)
        for entry in manifest.train:
            _check_permutation(open_array(folder, entry.shuffle), entry.shuffle.path)
        _blend(folder, manifest)
    except CheckFailedError:
        raise
    except BloomeryError as error:
        raise CheckFailedError(error.what, where=error.where, expected=error.expected) from error
    return {
        "digest": manifest.digest,
        "token_files": len(manifest.token_files),
        "documents": sum(entry.documents for entry in manifest.token_files),
        "tokens": sum(entry.tokens for entry in manifest.token_files),
        "train_samples": manifest.train_samples,
        "train": {entry.name: {"samples": entry.samples, "epochs": entry.epochs} for entry in manifest.train},
        "validation": {entry.name: entry.samples for entry in manifest.validation},
    }


def _fail(what: str, where: object, expected: str | None = None) -> CheckFailedError:
    return CheckFailedError(what, where=str(where), expected=expected)


def _token_file(folder: Path, entry: TokenFileEntry, manifest: IndexManifest) -> npt.NDArray[np.int32]:
    """Check one pair; returns its lengths, memory-mapped."""
    prefix = folder / entry.prefix
    file = open_token_file(prefix)
    idx = prefix.with_name(prefix.name + ".idx")
    if file.dtype != token_dtype(manifest.vocabulary_size):
        raise _fail(f"tokens are {file.dtype}", idx, f"{token_dtype(manifest.vocabulary_size)}")
    if (len(file.lengths), len(file.tokens)) != (entry.documents, entry.tokens):
        raise _fail(
            f"{len(file.lengths)} documents of {len(file.tokens)} tokens", idx, f"{entry.documents} of {entry.tokens}"
        )
    if digest_file(idx) != entry.idx_digest:
        raise _fail("is not the file that the index was built from", idx, f"digest {entry.idx_digest}")
    _tokens(prefix.with_name(prefix.name + ".bin"), file, entry.bin_digest, manifest)
    return file.lengths


def _tokens(binary: Path, file: TokenFile, bin_digest: str, manifest: IndexManifest) -> None:
    algorithm = hashlib.blake2b(digest_size=16)
    for begin in range(0, len(file.tokens), CHUNK):
        chunk = np.ascontiguousarray(file.tokens[begin : begin + CHUNK])
        algorithm.update(chunk.data)
        low, high = int(chunk.min()), int(chunk.max())
        if low < 0 or high >= manifest.vocabulary_size:
            raise _fail(
                f"token {low if low < 0 else high} in tokens {begin} to {begin + len(chunk)}",
                binary,
                f"0 to {manifest.vocabulary_size - 1}",
            )
    if algorithm.hexdigest() != bin_digest:
        raise _fail("is not the file that the index was built from", binary, f"digest {bin_digest}")
    last = file.offsets // file.dtype.itemsize + file.lengths - 1
    wrong = np.flatnonzero((file.lengths < 1) | (file.tokens[last] != manifest.end_of_document))
    if len(wrong):
        raise _fail(f"document {wrong[0]} does not end with token {manifest.end_of_document}", binary)


def _dataset(folder: Path, entry: DatasetEntry, lengths: list[npt.NDArray[np.int32]], sequence_length: int) -> None:
    documents, starts = verify_array(folder, entry.documents), verify_array(folder, entry.sample_starts)
    shuffle = verify_array(folder, entry.shuffle)
    where = folder / entry.documents.path
    if len(documents) != entry.epochs * entry.unique_documents:
        raise _fail(f"{len(documents)} entries", where, f"{entry.epochs} epochs of {entry.unique_documents}")
    sizes = np.empty(len(documents), dtype=np.int32)
    for begin in range(0, len(documents), CHUNK):
        numbers, rows = documents[begin : begin + CHUNK, 0], documents[begin : begin + CHUNK, 1]
        if numbers.min() < 0 or numbers.max() >= len(lengths):
            raise _fail(f"token file {numbers.max()}", where, f"0 to {len(lengths) - 1}")
        for number in np.unique(numbers):
            chosen = numbers == number
            if rows[chosen].min() < 0 or rows[chosen].max() >= len(lengths[number]):
                raise _fail(f"document {rows[chosen].max()} of token file {number}", where)
            sizes[begin : begin + CHUNK][chosen] = lengths[number][rows[chosen]]
    ends = np.cumsum(sizes, dtype=np.int64)
    if int(ends[-1]) != entry.epochs * entry.unique_tokens:
        raise _fail(f"{ends[-1]} tokens", where, f"{entry.epochs} epochs of {entry.unique_tokens}")
    where = folder / entry.sample_starts.path
    for begin in range(0, len(starts), CHUNK):
        positions, skips = starts[begin : begin + CHUNK, 0], starts[begin : begin + CHUNK, 1]
        if positions.min() < 0 or positions.max() >= len(ends):
            raise _fail(f"document position {positions.max()}", where, f"0 to {len(ends) - 1}")
        tokens = ends[positions] - sizes[positions] + skips
        wanted = np.arange(begin, begin + len(tokens)) * sequence_length
        if np.any(tokens != wanted) or np.any(skips < 0) or np.any(skips >= sizes[positions]):
            raise _fail("sample starts do not follow from the documents", where)
    if len(shuffle) != entry.samples or len(shuffle) == 0 or shuffle.min() < 0 or shuffle.max() >= len(starts) - 1:
        raise _fail("sample numbers out of range", folder / entry.shuffle.path, f"0 to {len(starts) - 2}")


def _check_permutation(values: npt.NDArray[np.int64], where: str) -> None:
    seen = np.zeros(len(values), dtype=np.bool_)
    seen[values] = True
    if not seen.all():
        raise _fail("not a permutation of the samples", where)


def _blend(folder: Path, manifest: IndexManifest) -> None:
    """Each dataset's samples appear in order 0, 1, 2, ... up to its quota, which its share states."""
    datasets, samples = verify_array(folder, manifest.blend_dataset), verify_array(folder, manifest.blend_sample)
    where = folder / manifest.blend_sample.path
    if not len(datasets) == len(samples) == manifest.train_samples:
        raise _fail(f"{len(datasets)} and {len(samples)} entries", where, f"{manifest.train_samples}")
    taken = np.zeros(len(manifest.train), dtype=np.int64)
    for begin in range(0, len(datasets), CHUNK):
        numbers, within = datasets[begin : begin + CHUNK], samples[begin : begin + CHUNK]
        if numbers.min() < 0 or numbers.max() >= len(manifest.train):
            raise _fail(
                f"dataset {numbers.max()}", folder / manifest.blend_dataset.path, f"0 to {len(manifest.train) - 1}"
            )
        for number in np.unique(numbers):
            mine = within[numbers == number]
            if not np.array_equal(mine, np.arange(taken[number], taken[number] + len(mine))):
                raise _fail(f"samples of dataset {number} are not taken in order, each once", where)
            taken[number] += len(mine)
    for count, entry in zip(taken.tolist(), manifest.train, strict=True):
        share = manifest.shares.get(entry.name)
        if count > entry.samples or share is None or count != round(share * manifest.train_samples):
            raise _fail(f"{count} samples of {entry.name!r}", where, f"its quota, at most {entry.samples}")
