"""The token index: Megatron `.bin/.idx` pairs, a sidecar a pair, arrays, and index.json that names them all.

`.idx` (little endian): magic `MMIDIDX\\0\\0`, u64 version 1, u8 dtype code, u64 sequences, u64 documents + 1, then i32
lengths, i64 byte offsets, i64 document bounds. `.bin`: raw tokens. Byte for byte what Megatron-LM writes for text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import atomic_path, read_json
from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.tokens import UINT16_BELOW

MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
DTYPE_CODES: dict[int, np.dtype[Any]] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}
"""Token types that this project writes: int32 and uint16."""

SIDECAR_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("shard", pa.string()),
        ("row", pa.int64()),
        ("first_token", pa.int64()),
        ("tokens", pa.int64()),
        ("split_key", pa.uint64()),
    ]
)
"""One row a document, in the order of the `.idx`: identity, the row of the clean shard (`source/00000`) that it was,
its span of tokens in the `.bin`, and the hash that deals it to training or validation: the first 64 bits of its id, or
of the id of its cluster of duplicates."""


def sidecar_path(prefix: Path) -> Path:
    """`index/tokens/wiki/00000` -> `index/tokens/wiki/00000.documents.parquet`."""
    return prefix.with_name(prefix.name + ".documents.parquet")


def token_dtype(vocabulary_size: int) -> np.dtype[Any]:
    """Token type for a vocabulary of the tokenizer's (unpadded) size."""
    return DTYPE_CODES[8] if vocabulary_size < UINT16_BELOW else DTYPE_CODES[4]


def write_idx(path: Path, lengths: npt.NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    """Write an `.idx` with one sequence a document, atomically. `lengths`: int32 [documents], tokens."""
    code = next(code for code, known in DTYPE_CODES.items() if known == dtype)
    offsets = np.zeros(len(lengths), dtype="<i8")
    if len(lengths) > 1:
        np.cumsum(lengths[:-1].astype(np.int64) * dtype.itemsize, out=offsets[1:])
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        handle.write(_HEADER.pack(MAGIC, 1, code, len(lengths), len(lengths) + 1))
        handle.write(lengths.astype("<i4").tobytes())
        handle.write(offsets.tobytes())
        handle.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())


@dataclass(frozen=True)
class TokenFile:
    """An open `.bin/.idx` pair.

    `lengths` int32 [sequences], `offsets` int64 [sequences] in bytes, `documents` int64 [documents + 1],
    `tokens` [all tokens], memory-mapped.
    """

    prefix: Path
    dtype: np.dtype[Any]
    lengths: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    tokens: npt.NDArray[Any]


def open_token_file(prefix: Path, *, check: bool = True) -> TokenFile:
    """Open `<prefix>.bin` and `<prefix>.idx`, memory-mapped, and check that they belong together.

    Args:
        prefix: path without suffix.
        check: read all of the `.idx` (20 bytes a document) and check it; otherwise only header and sizes, in constant
            time, for readers of an index that was checked when it was built.

    Raises:
        InputError: missing, cut, foreign or inconsistent files, with what is wrong.
    """
    idx, binary = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    try:
        idx_bytes, bin_bytes = idx.stat().st_size, binary.stat().st_size
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(error.filename)) from error
    if idx_bytes < _HEADER.size:
        raise InputError(f"only {idx_bytes} bytes", where=str(idx), expected="a Megatron .idx (header of 34 bytes)")
    raw: npt.NDArray[np.uint8] = np.memmap(idx, dtype=np.uint8, mode="r")
    magic, version, code, sequences, bounds = _HEADER.unpack(raw[: _HEADER.size].tobytes())
    if magic != MAGIC or version != 1:
        raise InputError("not a Megatron .idx", where=str(idx), expected=f"magic {MAGIC!r}, version 1")
    if code not in DTYPE_CODES:
        raise InputError(f"token type code {code}", where=str(idx), expected=f"one of {sorted(DTYPE_CODES)}")
    expected = _HEADER.size + 12 * sequences + 8 * bounds
    if idx_bytes != expected:
        raise InputError(f"has {idx_bytes} bytes", where=str(idx), expected=f"{expected} for {sequences} sequences")
    dtype = DTYPE_CODES[code]
    position = _HEADER.size
    lengths = np.frombuffer(raw, dtype="<i4", count=sequences, offset=position)
    position += 4 * sequences
    offsets = np.frombuffer(raw, dtype="<i8", count=sequences, offset=position)
    position += 8 * sequences
    documents = np.frombuffer(raw, dtype="<i8", count=bounds, offset=position)
    total_bytes = int(offsets[-1]) + int(lengths[-1]) * dtype.itemsize if sequences else 0
    if total_bytes != bin_bytes:
        raise InputError(f"has {bin_bytes} bytes", where=str(binary), expected=f"{total_bytes}, by its .idx")
    if check:
        _check_idx(idx, lengths, offsets, documents, dtype.itemsize)
    tokens: npt.NDArray[Any] = np.memmap(binary, dtype=dtype, mode="r") if bin_bytes else np.empty(0, dtype=dtype)
    return TokenFile(prefix, dtype, lengths, offsets, documents, tokens)


def _check_idx(
    idx: Path,
    lengths: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    itemsize: int,
) -> None:
    """Lengths are not negative, offsets follow from them, document bounds are monotone. Raises InputError."""
    if np.any(lengths < 0):
        raise InputError("a negative sequence length", where=str(idx))
    ends = np.cumsum(lengths.astype(np.int64)) * itemsize
    if len(offsets) and (offsets[0] != 0 or not np.array_equal(offsets[1:], ends[:-1])):
        raise InputError("offsets do not follow from lengths", where=str(idx))
    if len(documents) < 1 or documents[0] != 0 or documents[-1] != len(lengths) or np.any(np.diff(documents) < 0):
        raise InputError("document bounds are not monotone from 0 to the number of sequences", where=str(idx))


class ArrayEntry(BaseModel):
    """One `.npy` array of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    """Relative to the index folder."""
    dtype: str
    shape: list[int]
    digest: str


class TokenFileEntry(BaseModel):
    """One `.bin/.idx` pair of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str
    """Relative to the index folder, without suffix."""
    documents: int
    tokens: int
    bin_digest: str
    idx_digest: str


class DatasetEntry(BaseModel):
    """One named set of samples (a language of the training or the validation part).

    Arrays: `documents` int32 [entries, 2] (token file number, document number in it) in reading order, epochs
    concatenated; `sample_starts` int64 [n + 1, 2] (position in `documents`, token offset in that document), n >=
    samples; `shuffle` int64 [samples], numbers below n. Sample i holds the sequence_length + 1 tokens from
    sample_starts[shuffle[i]]. (An int32 pair holds any corpus: documents are numbered within a file.)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    language: str
    unique_documents: int
    unique_tokens: int
    epochs: int
    samples: int
    """Samples that may be read."""
    documents: ArrayEntry
    sample_starts: ArrayEntry
    shuffle: ArrayEntry


class TextRead(BaseModel):
    """Training text of a language or of a source in it, and how much of it the training reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: int
    tokens: int
    """Unique tokens, ends of documents counted; what is held out for validation is not in it."""
    share: float
    """Share of the tokens that the training reads."""
    epochs: float
    """How often the training reads them."""


class LanguageRead(TextRead):
    """A language of the mixture, in tokens."""

    weight: float
    """In mixture.json; `share` differs where `max_epochs` cuts it, and by the rounding to whole samples."""
    sources: dict[str, TextRead]


class IndexManifest(BaseModel):
    """index.json: written last; without it there is no index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    digest: str
    """Digest of everything that the arrays were built from (token files, configuration)."""
    sequence_length: int
    vocabulary_size: int
    end_of_document: int
    tokenizer_digest: str
    token_files: list[TokenFileEntry]
    train: list[DatasetEntry]
    validation: list[DatasetEntry]
    blend_dataset: ArrayEntry
    """int32 [train_samples]: dataset of each global sample."""
    blend_sample: ArrayEntry
    """int64 [train_samples]: sample within that dataset."""
    train_samples: int
    shares: dict[str, float]
    """Share of the training samples per dataset."""
    languages: dict[str, LanguageRead] = {}
    """The mixture in tokens."""


def read_index_manifest(path: Path) -> IndexManifest:
    """Read index.json. Raises InputError."""
    try:
        return IndexManifest.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"not an index manifest: {error}", where=str(path)) from error


def array_entries(manifest: IndexManifest) -> list[ArrayEntry]:
    """Every array of the index."""
    datasets = [*manifest.train, *manifest.validation]
    own = [entry for d in datasets for entry in (d.documents, d.sample_starts, d.shuffle)]
    return [*own, manifest.blend_dataset, manifest.blend_sample]


def verify_array(folder: Path, entry: ArrayEntry) -> npt.NDArray[Any]:
    """Open an array whose content is what was written. Raises CheckFailedError (content), InputError (form)."""
    array = open_array(folder, entry)
    path = folder / entry.path
    if digest_file(path) != entry.digest:
        raise CheckFailedError(
            "its content changed since it was written",
            where=str(path),
            expected=f"digest {entry.digest}; delete index.json and run the index stage again",
        )
    return array


def open_array(folder: Path, entry: ArrayEntry) -> npt.NDArray[Any]:
    """Memory-map an array of the index and check its type and shape. Raises InputError."""
    path = folder / entry.path
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"not a readable array ({error})", where=str(path)) from error
    if str(array.dtype) != entry.dtype or list(array.shape) != entry.shape:
        raise InputError(
            f"is {array.dtype} {list(array.shape)}", where=str(path), expected=f"{entry.dtype} {entry.shape}"
        )
    return array
