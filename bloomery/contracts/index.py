"""The token index: Megatron `.bin/.idx` pairs, a sidecar a pair, arrays, and index.json that names them all.

`.idx` (little endian): magic `MMIDIDX\\0\\0`, u64 version 1, u8 dtype code, u64 sequences, u64 documents + 1, then i32
lengths, i64 byte offsets, i64 document bounds. `.bin`: raw tokens. Byte for byte what Megatron-LM writes for text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import atomic_path, read_json
from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.tokens import UINT16_BELOW
from bloomery.contracts.blend import StageEntry

MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
DTYPE_CODES: dict[int, np.dtype[Any]] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}
"""Token types that this project writes: int32 and uint16."""
_FOREIGN_CODES = {
    1: "uint8, no type of token ids",
    2: "int8, no type of token ids",
    3: "int16, which ids of 32,768 and more overflow",
    5: "int64, twice the size of any vocabulary's ids",
    6: "a floating-point type",
    7: "a floating-point type, of 4 or 8 bytes by the version of Megatron",
}
_LEGACY_MAGIC = b"TNTIDX"
_CHECKED = 1 << 20
"""Sequences that a check looks at together: some tens of MB whatever the file holds."""


def token_dtype(vocabulary_size: int) -> np.dtype[Any]:
    """Token type for a vocabulary of the tokenizer's (unpadded) size."""
    return DTYPE_CODES[8] if vocabulary_size < UINT16_BELOW else DTYPE_CODES[4]


def write_idx(path: Path, lengths: npt.NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    """Write an `.idx` with one sequence a document, atomically. `lengths`: int32 [documents], tokens."""
    with atomic_path(path) as temporary:
        dump_idx(temporary, lengths, dtype)


def dump_idx(path: Path, lengths: npt.NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    """Write what `write_idx` does to `path` itself, which its caller renames."""
    code = next(code for code, known in DTYPE_CODES.items() if known == dtype)
    offsets = np.zeros(len(lengths), dtype="<i8")
    if len(lengths) > 1:
        np.cumsum(lengths[:-1].astype(np.int64) * dtype.itemsize, out=offsets[1:])
    with path.open("wb") as handle:
        handle.write(_HEADER.pack(MAGIC, 1, code, len(lengths), len(lengths) + 1))
        handle.write(lengths.astype("<i4", copy=False).data)
        handle.write(offsets.data)
        handle.write(np.arange(len(lengths) + 1, dtype="<i8").data)


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
        # Opened, too: what may not be read has a size as well.
        with idx.open("rb"), binary.open("rb"):
            pass
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(error.filename)) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(error.filename)) from error
    if idx_bytes < _HEADER.size:
        raise InputError(f"only {idx_bytes} bytes", where=str(idx), expected="a Megatron .idx (header of 34 bytes)")
    raw: npt.NDArray[np.uint8] = np.memmap(idx, dtype=np.uint8, mode="r")
    magic, version, code, sequences, bounds = _HEADER.unpack(raw[: _HEADER.size].tobytes())
    if magic != MAGIC or version != 1:
        legacy = " but fairseq's older form" if magic.startswith(_LEGACY_MAGIC) else ""
        raise InputError(f"not a Megatron .idx{legacy}", where=str(idx), expected=f"magic {MAGIC!r}, version 1")
    if code not in DTYPE_CODES:
        reason = _FOREIGN_CODES.get(code, "no Megatron writes it")
        raise InputError(f"token type code {code}: {reason}", where=str(idx), expected="4 (int32) or 8 (uint16)")
    expected = _HEADER.size + 12 * sequences + 8 * bounds
    if idx_bytes != expected:
        modes = ", and a byte more for each: a multimodal file" if idx_bytes == expected + sequences else ""
        right = f"{expected} for {sequences} sequences of text and {bounds} document bounds"
        raise InputError(f"has {idx_bytes} bytes{modes}", where=str(idx), expected=right)
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
    """Lengths are not negative, offsets follow from them, document bounds rise. Raises InputError."""
    if len(documents) < 1 or documents[0] != 0 or documents[-1] != len(lengths):
        raise InputError("document bounds do not go from 0 to the number of sequences", where=str(idx))
    end = 0
    for begin in range(0, len(lengths), _CHECKED):
        part = lengths[begin : begin + _CHECKED]
        if np.any(part < 0):
            raise InputError("a negative sequence length", where=str(idx))
        ends = end + np.cumsum(part, dtype=np.int64) * itemsize
        own = offsets[begin : begin + _CHECKED]
        if own[0] != end or not np.array_equal(own[1:], ends[:-1]):
            raise InputError("offsets do not follow from lengths", where=str(idx))
        end = int(ends[-1])
    for begin in range(0, len(documents), _CHECKED):
        if np.any(np.diff(documents[begin : begin + _CHECKED + 1]) < 0):
            raise InputError("document bounds fall", where=str(idx))


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
    sidecar_digest: str
    ends_with_end_of_document: bool = True
    """Whether every document ends with the index's end-of-document token."""


class DatasetEntry(BaseModel):
    """One named set of samples (a language of the training or the validation part).

    Arrays, each in the smaller of two types that holds its numbers: `documents` uint32 | int64 [entries], numbers of
    documents in reading order, counted through all token files in their order; `sample_starts` uint32 | int64
    [n + 1, 2] (position in `documents`, token offset in that document), n >= samples; `shuffle` uint32 | int64
    [samples], numbers below n. Sample i holds the sequence_length + 1 tokens from sample_starts[shuffle[i]].

    `documents` holds each unique document once an epoch; in order `epochs` it ends with the one that the last sample
    ends in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    language: str
    unique_documents: int
    unique_tokens: int
    epochs: int
    samples: int
    """Samples that may be read."""
    identity: str
    """Digest of what decides the sequence of its samples, however many are taken: text, order, seed, length."""
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

    format: Literal[2] = 2
    """2: documents are numbered through all token files, arrays are uint32 where that holds them."""
    digest: str
    """Digest of everything that the arrays were built from (token files, configuration)."""
    sequence_length: int
    order: Literal["epochs", "megatron"] = "epochs"
    """Of the training's documents and samples (`index.order`)."""
    vocabulary_size: int
    end_of_document: int
    tokenizer_digest: str
    token_files: list[TokenFileEntry]
    train: list[DatasetEntry]
    validation: list[DatasetEntry]
    blend_dataset: ArrayEntry
    """int16 [train_samples], int32 of more than 32,768 datasets: dataset of each global sample."""
    blend_sample: ArrayEntry
    """uint32 [train_samples], int64 where that is too small: sample within that dataset."""
    train_samples: int
    stages: list[StageEntry]
    """The blend in closed form, first stage first: together they hold every training sample once."""
    shares: dict[str, float]
    """Share of the training samples per dataset."""
    languages: dict[str, LanguageRead] = {}
    """The mixture in tokens."""


def read_index_manifest(path: Path) -> IndexManifest:
    """Read index.json. Raises InputError."""
    value = read_json(path)
    found = value.get("format") if isinstance(value, dict) else None
    if found != 2:
        raise InputError(
            f"an index of format {found}", where=str(path), expected="format 2; delete it and run the index stage again"
        )
    try:
        return IndexManifest.model_validate(value)
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
    except (EOFError, OSError, ValueError) as error:
        raise InputError(f"not a readable array ({error})", where=str(path)) from error
    if str(array.dtype) != entry.dtype or list(array.shape) != entry.shape:
        raise InputError(
            f"is {array.dtype} {list(array.shape)}", where=str(path), expected=f"{entry.dtype} {entry.shape}"
        )
    return array
