"""Verify a whole index and report the first check that fails.

This module checks the token files: header, sizes, offsets, document bounds, and the digests of `.bin`, `.idx` and
sidecar. Every token must be less than the vocabulary size, every document must end with the end-of-document token, and
the sidecar must describe the same documents. `data_prep.index.verify_split_and_shuffle` checks the arrays, and
`data_prep.index.verify_blend` checks the blend.

The whole index is read once (1.4 TB for 341.6 B tokens). Each thread reads one token file at a time, in pieces of tens
of MB. For each document of the index, 4 bytes (its number of tokens) and a few bits are in memory.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.digest import digest_file
from bloomery.base.errors import BloomeryError, CheckFailedError
from bloomery.base.progress import say, track
from bloomery.contracts.index import TokenFile, array_entries, open_token_file
from bloomery.contracts.index_manifest import IndexManifest, TokenFileEntry, read_index_manifest, resolve_index
from data_prep.formats.shard import iterate_batches, read_manifest
from data_prep.formats.sidecar import sidecar_path
from data_prep.index.arrays import CHUNK
from data_prep.index.index_error import BUILD_AGAIN, index_error
from data_prep.index.verify_blend import check_blend
from data_prep.index.verify_split_and_shuffle import check_datasets

_DOCUMENTS = 1 << 18
_MOST_THREADS = 8


def verify_index(folder: Path) -> dict[str, Any]:
    """Verify the index in `folder` and return a summary of its content.

    Raises:
        CheckFailedError: a file is missing, damaged or swapped, or files are inconsistent. The error states what is
            wrong and where.
    """
    started = time.monotonic()
    folder = resolve_index(folder)
    try:
        manifest = read_index_manifest(folder / "index.json")
        _check_counts(folder, manifest)
        lengths = np.empty(sum(entry.documents for entry in manifest.token_files), dtype=np.int32)
        read = _token_files(folder, manifest, lengths)
        seconds = max(time.monotonic() - started, 1e-9)
        say(f"verified token files: {read / 1e9:.3g} GB at {read / 1e9 / seconds:.2g} GB/s")
        check_datasets(folder, manifest, lengths)
        check_blend(folder, manifest)
    except CheckFailedError:
        raise
    except BloomeryError as error:
        raise CheckFailedError(error.what, where=error.where, expected=error.expected) from error
    return {
        "digest": manifest.digest,
        "token_files": len(manifest.token_files),
        "documents": sum(entry.documents for entry in manifest.token_files),
        "tokens": sum(entry.tokens for entry in manifest.token_files),
        "bytes": read + sum((folder / entry.path).stat().st_size for entry in array_entries(manifest)),
        "train_samples": manifest.train_samples,
        "train": {entry.name: {"samples": entry.samples, "epochs": entry.epochs} for entry in manifest.train},
        "validation": {entry.name: entry.samples for entry in manifest.validation},
    }


_fail = partial(
    index_error,
    remedy="restore this file. If this is not possible, write damaged token files or sidecars again; then "
    f"{BUILD_AGAIN}",
)


def _check_counts(folder: Path, manifest: IndexManifest) -> None:
    """Check that index.json states a possible number of documents, before memory for that many is reserved."""
    paths = [folder / f"{entry.prefix}.idx" for entry in manifest.token_files]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    documents = sum(entry.documents for entry in manifest.token_files)
    # A document takes 20 bytes of an .idx file. The files are checked one by one later, with more precise errors.
    if documents > size:
        raise _fail(
            f"the file states {documents} documents, but all .idx files together have {size} bytes",
            folder / "index.json",
            "the number of documents in the token files",
        )


def _token_files(folder: Path, manifest: IndexManifest, lengths: npt.NDArray[np.int32]) -> int:
    """Check every pair, write each document's number of tokens into `lengths`, and return the number of bytes read."""
    ends = np.cumsum([entry.documents for entry in manifest.token_files], dtype=np.int64)
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(max_workers=threads) as pool:
        jobs = [
            pool.submit(_token_file, folder, entry, manifest, lengths[end - entry.documents : end])
            for entry, end in zip(manifest.token_files, ends.tolist(), strict=True)
        ]
        try:
            return sum(job.result() for job in track(jobs, "verify token files", len(jobs), "files"))
        finally:
            pool.shutdown(cancel_futures=True)


def _token_file(folder: Path, entry: TokenFileEntry, manifest: IndexManifest, lengths: npt.NDArray[np.int32]) -> int:
    """Check one pair and its sidecar, and return the number of bytes read.

    The number of tokens of each document is written into `lengths`.
    """
    prefix = folder / entry.prefix
    file = open_token_file(prefix)
    idx, binary = (prefix.with_name(prefix.name + suffix) for suffix in (".idx", ".bin"))
    if (len(file.lengths), len(file.tokens)) != (entry.documents, entry.tokens):
        raise _fail(
            f"the file has {len(file.lengths)} documents with {len(file.tokens)} tokens in total",
            idx,
            f"{entry.documents} documents with {entry.tokens} tokens in total, as index.json states",
        )
    for begin in range(0, len(file.documents), _DOCUMENTS):
        if np.any(np.diff(file.documents[begin : begin + _DOCUMENTS + 1]) > 1):
            raise _fail("a document has several sequences", idx, "one sequence per document")
    if digest_file(idx) != entry.idx_digest:
        raise _fail("this is not the file that the index was built from", idx, f"digest {entry.idx_digest}")
    lengths[:] = file.lengths
    _tokens(binary, file, lengths, entry, manifest)
    _sidecar(prefix, file, entry, manifest)
    return sum(path.stat().st_size for path in (idx, binary, sidecar_path(prefix)))


def _pieces(lengths: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Yield the pieces of a `.bin` as (begin, end, last), where all numbers are positions of tokens.

    `end` is excluded. `last` has the position of the last token of each document that ends in the piece.
    """
    begin = 0
    for first in range(0, len(lengths), _DOCUMENTS):
        ends = begin + np.cumsum(lengths[first : first + _DOCUMENTS], dtype=np.int64)
        while begin < ends[-1]:
            end = min(begin + CHUNK, int(ends[-1]))
            yield begin, end, ends[slice(*np.searchsorted(ends, (begin, end), side="right"))] - 1
            begin = end


def _tokens(
    binary: Path, file: TokenFile, lengths: npt.NDArray[np.int32], entry: TokenFileEntry, manifest: IndexManifest
) -> None:
    algorithm = hashlib.blake2b(digest_size=16)
    end_token = manifest.end_of_document
    if entry.ends_with_end_of_document and len(lengths) and lengths.min() < 1:
        raise _fail(
            f"document {lengths.argmin()} is empty", binary, f"the token id {end_token} at the end of the document"
        )
    with binary.open("rb") as handle:
        for begin, end, last in _pieces(lengths):
            # The file is not memory-mapped, because the pages read would count as memory of this process.
            chunk = np.fromfile(handle, dtype=file.dtype, count=end - begin)
            algorithm.update(chunk.data)
            low, high = int(chunk.min()), int(chunk.max())
            if low < 0 or high >= manifest.vocabulary_size:
                raise _fail(
                    f"the token id {low if low < 0 else high} occurs among the tokens {begin} to {end - 1} of the file",
                    binary,
                    f"token ids 0 to {manifest.vocabulary_size - 1}",
                )
            wrong = np.flatnonzero(chunk[last - begin] != end_token)
            if entry.ends_with_end_of_document and len(wrong):
                raise _fail(
                    f"the token at position {last[wrong[0]]} of the file ends a document but is no end-of-document "
                    "token",
                    binary,
                    f"the token id {end_token} at the end of every document",
                )
    if algorithm.hexdigest() != entry.bin_digest:
        raise _fail("this is not the file that the index was built from", binary, f"digest {entry.bin_digest}")


def _sidecar(prefix: Path, file: TokenFile, entry: TokenFileEntry, manifest: IndexManifest) -> None:
    """Check that the index was built from this sidecar and that the sidecar describes the documents of the pair."""
    path = sidecar_path(prefix)
    stated = read_manifest(path)
    found = {key: stated["counts"].get(key) for key in ("bin_digest", "idx_digest")}
    if found != {"bin_digest": entry.bin_digest, "idx_digest": entry.idx_digest}:
        raise _fail(
            "this sidecar (table of documents) belongs to another pair of token files",
            path,
            f"the sidecar of {prefix.name}.bin and .idx",
        )
    if stated["file"]["digest"] != entry.sidecar_digest:
        raise _fail(
            "this is not the sidecar (table of documents) that the index was built from",
            path,
            f"digest {entry.sidecar_digest}",
        )
    if stated.get("parameters") != manifest.tokenizer_digest:
        raise _fail(
            "the token files were encoded with another tokenizer",
            path,
            f"the tokenizer of the index, with digest {manifest.tokenizer_digest}",
        )
    begin = 0
    for batch in iterate_batches(path, ["first_token", "tokens"], _DOCUMENTS):
        end = begin + batch.num_rows
        first = file.offsets[begin:end] // file.dtype.itemsize
        if not (
            np.array_equal(batch.column("tokens"), file.lengths[begin:end])
            and np.array_equal(batch.column("first_token"), first)
        ):
            raise _fail(
                "the sidecar (table of documents) describes other documents",
                path,
                f"the documents of {prefix.name}.idx",
            )
        begin = end
    if begin != entry.documents:
        raise _fail(
            f"the sidecar (table of documents) has {begin} rows", path, f"{entry.documents} rows, one per document"
        )
