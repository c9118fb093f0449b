"""Define the token index: Megatron `.bin/.idx` pairs with one sidecar table each, arrays with the order of documents
and samples, and an index.json that lists all these files.

An `.idx` (little endian) consists of the magic `MMIDIDX\\0\\0`, u64 version 1, u8 dtype code, u64 sequences, u64
documents + 1, then i32 lengths, i64 byte offsets and i64 document bounds. A `.bin` consists of raw tokens. The files
are byte for byte what Megatron-LM writes for text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import atomic_path
from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.tokens import token_bytes
from bloomery.contracts.index_manifest import (
    BUILD_AGAIN,
    ArrayEntry,
    IndexManifest,
)

MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
DTYPE_CODES: dict[int, np.dtype[Any]] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}
"""Token types that this project writes: int32 and uint16."""
_FOREIGN_CODES = {
    1: "uint8, which is too small for token ids",
    2: "int8, which is too small for token ids",
    3: "int16, which overflows for ids from 32,768",
    5: "int64, which is twice as large as any vocabulary needs",
    6: "a floating-point type",
    7: "a floating-point type of 4 or 8 bytes, depending on the version of Megatron",
}
_LEGACY_MAGIC = b"TNTIDX"
_CHECKED = 1 << 20
"""Number of sequences checked at a time. The check needs a few tens of MB, whatever the size of the file is."""
_COPY_AGAIN = "an undamaged .idx file; copy the .bin and .idx files again, or encode the text again"


def token_dtype(vocabulary_size: int) -> np.dtype[Any]:
    """Return the token type for a vocabulary of `vocabulary_size` entries (the tokenizer's size, without padding)."""
    return DTYPE_CODES[8] if token_bytes(vocabulary_size) == 2 else DTYPE_CODES[4]


def write_idx(path: Path, lengths: npt.NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    """Atomically write an `.idx` with one sequence for each document. `lengths` has the number of
    tokens of each document, int32 [documents]."""
    with atomic_path(path) as temporary:
        dump_idx(temporary, lengths, dtype)


def dump_idx(path: Path, lengths: npt.NDArray[np.int32], dtype: np.dtype[Any]) -> None:
    """Write an `.idx` directly to `path`, which is a temporary path. The caller must rename the file."""
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
    """An open `.bin/.idx` pair, memory-mapped.

    `lengths` is int32 [sequences], `offsets` int64 [sequences] in bytes, `documents` int64 [documents + 1], and
    `tokens` has all tokens.
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
        check: whether to read and check the whole `.idx` (20 bytes a document). If False, only header and sizes are
            checked, in constant time. Use False for an index that was checked when it was built.

    Raises:
        InputError: a file is missing, truncated, of another format or inconsistent.
    """
    idx, binary = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    try:
        idx_bytes, bin_bytes = idx.stat().st_size, binary.stat().st_size
        # The files are also opened, because `stat` succeeds on files without read permission.
        with idx.open("rb"), binary.open("rb"):
            pass
    except FileNotFoundError as error:
        right = "both files of the pair, NAME.bin and NAME.idx; check the path"
        raise InputError("no such file", where=str(error.filename), expected=right) from error
    except OSError as error:
        right = "a file that this user may read"
        raise InputError(
            f"the file cannot be read ({error.strerror})", where=str(error.filename), expected=right
        ) from error
    if idx_bytes < _HEADER.size:
        raise InputError(
            f"the file has only {idx_bytes} bytes",
            where=str(idx),
            expected="a Megatron .idx file, whose header alone has 34 bytes; encode the text again",
        )
    raw: npt.NDArray[np.uint8] = np.memmap(idx, dtype=np.uint8, mode="r")
    magic, version, code, sequences, bounds = _HEADER.unpack(raw[: _HEADER.size].tobytes())
    if magic != MAGIC or version != 1:
        legacy = " but fairseq's older format" if magic.startswith(_LEGACY_MAGIC) else ""
        right = f"a file that begins with {MAGIC!r} and version 1; encode the text again with `bloomery encode`"
        raise InputError(f"not a Megatron .idx{legacy}", where=str(idx), expected=right)
    if code not in DTYPE_CODES:
        reason = _FOREIGN_CODES.get(code, "no version of Megatron writes this code")
        right = "token type code 4 (int32) or 8 (uint16); encode the text again with one of them"
        raise InputError(f"token type code {code}: {reason}", where=str(idx), expected=right)
    expected = _HEADER.size + 12 * sequences + 8 * bounds
    if idx_bytes != expected:
        modes = (
            ", with one extra byte for each sequence, as in multimodal files"
            if idx_bytes == expected + sequences
            else ""
        )
        right = (
            f"{expected} bytes for {sequences} sequences of text and {bounds} document bounds; "
            "copy the file again, or encode the text again"
        )
        raise InputError(f"the file has {idx_bytes} bytes{modes}", where=str(idx), expected=right)
    dtype = DTYPE_CODES[code]
    position = _HEADER.size
    lengths = np.frombuffer(raw, dtype="<i4", count=sequences, offset=position)
    position += 4 * sequences
    offsets = np.frombuffer(raw, dtype="<i8", count=sequences, offset=position)
    position += 8 * sequences
    documents = np.frombuffer(raw, dtype="<i8", count=bounds, offset=position)
    total_bytes = int(offsets[-1]) + int(lengths[-1]) * dtype.itemsize if sequences else 0
    if total_bytes != bin_bytes:
        raise InputError(
            f"the file has {bin_bytes} bytes",
            where=str(binary),
            expected=f"{total_bytes} bytes, as the .idx file beside it states; copy both files again, or encode the "
            "text again",
        )
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
    """Check that lengths are not negative, that offsets follow from lengths, and that document bounds do not decrease.

    Raises:
        InputError: one of these conditions does not hold.
    """
    if len(documents) < 1 or documents[0] != 0 or documents[-1] != len(lengths):
        raise InputError(
            "the list of document bounds does not begin with 0, or does not end with the number of sequences",
            where=str(idx),
            expected=_COPY_AGAIN,
        )
    end = 0
    for begin in range(0, len(lengths), _CHECKED):
        part = lengths[begin : begin + _CHECKED]
        if np.any(part < 0):
            raise InputError("the length of a sequence is negative", where=str(idx), expected=_COPY_AGAIN)
        ends = end + np.cumsum(part, dtype=np.int64) * itemsize
        own = offsets[begin : begin + _CHECKED]
        if own[0] != end or not np.array_equal(own[1:], ends[:-1]):
            raise InputError(
                "the byte offsets do not follow from the lengths of the sequences", where=str(idx), expected=_COPY_AGAIN
            )
        end = int(ends[-1])
    for begin in range(0, len(documents), _CHECKED):
        if np.any(np.diff(documents[begin : begin + _CHECKED + 1]) < 0):
            raise InputError(
                "the list of document bounds contains a number that is smaller than the one before it",
                where=str(idx),
                expected=_COPY_AGAIN,
            )


def _array_cause(error: Exception) -> str:
    return error.strerror or "the file is damaged" if isinstance(error, OSError) else "the file is damaged or truncated"


def array_entries(manifest: IndexManifest) -> list[ArrayEntry]:
    """Return every array of the index."""
    datasets = [*manifest.train, *manifest.validation]
    own = [entry for d in datasets for entry in (d.documents, d.sample_starts, d.shuffle)]
    return [*own, manifest.blend_dataset, manifest.blend_sample]


def verify_array(folder: Path, entry: ArrayEntry) -> npt.NDArray[Any]:
    """Open an array and check its content.

    Raises:
        CheckFailedError: the content differs from what was written.
        InputError: the array cannot be read, or its type or shape is wrong.
    """
    array = open_array(folder, entry)
    path = folder / entry.path
    if digest_file(path) != entry.digest:
        raise CheckFailedError(
            "the file's content changed since it was written",
            where=str(path),
            expected=f"digest {entry.digest}; {BUILD_AGAIN}",
        )
    return array


def open_array(folder: Path, entry: ArrayEntry) -> npt.NDArray[Any]:
    """Memory-map an array of the index and check its type and shape.

    Raises:
        InputError: the array cannot be read, or its type or shape is wrong.
    """
    path = folder / entry.path
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # for a damaged header, numpy raises errors of many types, such as TokenError
        expected = f"an array that the index stage wrote; {BUILD_AGAIN}"
        raise InputError(f"not a readable array ({_array_cause(error)})", where=str(path), expected=expected) from error
    if str(array.dtype) != entry.dtype or list(array.shape) != entry.shape:
        raise InputError(
            f"the array has type {array.dtype} and shape {list(array.shape)}",
            where=str(path),
            expected=f"type {entry.dtype} and shape {entry.shape}, as in index.json; {BUILD_AGAIN}",
        )
    return array
