"""Adopt token files that Megatron-LM's preprocessing wrote: verify the files, link to them and write a sidecar.

The user's files are never changed. The run gets symbolic links to the pair and a sidecar like those that `encode`
writes. Megatron's format records neither the tokenizer nor whether a file is complete. One pass over both files
therefore checks everything that can be checked: header, sizes, offsets, document bounds, every token, and the last
token of every document.

A document's identity is the digest of its tokens as int32, even if the file stores them as uint16. Equal documents are
therefore all used for training or all for validation, and adding files never moves a document from one to the other.
1 GB of tokens takes about 4 s on one core (two digests and one check of each token) and 0.3 GB of memory, regardless of
the file's length.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import explained, fsync_folder
from bloomery.base.digest import digest_ends, digest_file
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.contracts.index import TokenFile, open_token_file
from bloomery.contracts.tokenizer import end_of_document, load_tokenizer
from data_prep.formats.shard import TableWriter
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.tokenizer.token_byte_lengths import token_byte_lengths

BATCH_TOKENS = 1 << 21
BATCH_DOCUMENTS = 1 << 16
_DIGEST_BYTES = 16


def adopt_tokens(
    prefix: Path,
    tokenizer_path: Path,
    source: str,
    language: str,
    output: Path,
    *,
    ends_with_end_of_document: bool = True,
) -> dict[str, Any]:
    """Verify the pair at `prefix`, write the sidecar of `output`, then link `<output>.bin` and finally `<output>.idx`.

    Args:
        prefix: path of the user's pair, without suffix.
        tokenizer_path: `tokenizer.json` that encoded the files. Files in the same folder name the special tokens.
        source: name of the source.
        language: language code of every document.
        output: path of the run's pair, without suffix.
        ends_with_end_of_document: whether every document ends with the tokenizer's end-of-document token.

    Returns:
        The sidecar's manifest.

    Raises:
        InputError: a file is missing, truncated or of another format; the files do not belong together; a document
            has several sequences; the tokenizer lacks a token; or a document does not end with its end-of-document
            token.
        ResourceError: the disk is full or a permission is missing.
    """
    if _place(prefix) == _place(output):
        raise InputError(
            "the output path is also the input path, so the link would replace the file that it points to",
            where=str(output),
            expected="an output path that differs from the path of the input",
        )
    file = open_token_file(prefix)
    _refuse_split_documents(file)
    tokenizer = load_tokenizer(tokenizer_path)
    end = end_of_document(tokenizer_path, tokenizer) if ends_with_end_of_document else None
    with (
        _bin(prefix).open("rb") as handle,
        TableWriter.open(sidecar_path(output), SIDECAR_SCHEMA) as writer,
        Progress(f"adopt {prefix.name}", len(file.lengths)) as bar,
    ):
        check = _Check(file, handle, token_byte_lengths(tokenizer), end, tokenizer_path)
        for first, rows in _batches(file):
            writer.write(_sidecar_rows(check.documents(first, rows), file, first, source, language))
            bar.advance(rows)
    idx_digest = digest_file(_idx(prefix))
    bin_digest = check.bin_digest.hexdigest()
    size = {"documents": len(file.lengths), "bytes": check.text_bytes, "tokens": len(file.tokens)}
    manifest = writer.manifest(
        kind="token_documents",
        inputs={"bin": bin_digest, "idx": idx_digest},
        parameters=digest_file(tokenizer_path),
        counts={
            "documents": size["documents"],
            "tokens": size["tokens"],
            "bin_digest": bin_digest,
            "idx_digest": idx_digest,
            "ends": {"bin": digest_ends(_bin(prefix)), "idx": digest_ends(_idx(prefix))},
            "languages": {language: size} if size["documents"] else {},
            "ends_with_end_of_document": ends_with_end_of_document,
        },
    )
    _link(_bin(prefix), _bin(output))
    _link(_idx(prefix), _idx(output))
    return manifest


def prefix_of(path: Path) -> Path:
    """Return a pair's path without suffix. `path` is the pair's `.bin`, its `.idx`, or already without suffix."""
    return path.with_suffix("") if path.suffix in (".bin", ".idx") else path


def _refuse_split_documents(file: TokenFile) -> None:
    """Raise InputError if a document has several sequences. A document without a sequence is an empty text."""
    for begin in range(0, len(file.documents) - 1, BATCH_TOKENS):
        sequences = np.diff(file.documents[begin : begin + BATCH_TOKENS + 1])
        if (split := np.flatnonzero(sequences > 1)).size:
            raise InputError(
                f"document {begin + split[0]} has {sequences[split[0]]} sequences",
                where=str(_idx(file.prefix)),
                expected="one sequence per document. If the files were split into sentences, as for BERT and T5, "
                "preprocess the text again without --split-sentences",
            )


def _batches(file: TokenFile) -> Iterator[tuple[int, int]]:
    """Yield batches as (first document, number of documents).

    A batch has at most `BATCH_DOCUMENTS` documents and `BATCH_TOKENS` tokens, or one longer document.
    """
    first = 0
    while first < len(file.lengths):
        offsets = file.offsets[first : first + BATCH_DOCUMENTS]
        ends = offsets + file.lengths[first : first + BATCH_DOCUMENTS].astype(np.int64) * file.dtype.itemsize
        most = int(offsets[0]) + BATCH_TOKENS * file.dtype.itemsize
        rows = max(1, int(np.searchsorted(ends, most, side="right")))
        yield first, rows
        first += rows


@dataclass
class _Check:
    """Reads a pair's tokens once and in order: checks them, counts text bytes, hashes the file and each document."""

    file: TokenFile
    handle: BinaryIO
    """Open `.bin` of the pair."""
    byte_lengths: npt.NDArray[np.int32]
    """Number of bytes of text that each token id encodes, or a negative number if no token has the id."""
    end: int | None
    tokenizer_path: Path
    text_bytes: int = 0
    bin_digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES))

    def documents(self, first: int, rows: int) -> bytes:
        """Return the digests of the next `rows` documents, `_DIGEST_BYTES` bytes for each document.

        The first of these documents has the number `first` in the file.

        Raises:
            InputError: a check fails.
        """
        file = self.file
        lengths = file.lengths[first : first + rows].astype(np.int64)
        if lengths.min() == 0:
            raise InputError(
                f"sequence {first + int(lengths.argmin())} is empty",
                where=str(_idx(file.prefix)),
                expected="at least one token in every sequence. Remove empty documents from the text and preprocess it "
                "again",
            )
        ends = np.cumsum(lengths)
        if rows == 1:
            return self._digest_in_pieces(int(ends[0]), first)
        canonical = np.ascontiguousarray(self._next(first, ends), dtype="<i4")
        self._check_ends(canonical[ends - 1], first)
        raw = canonical.data.cast("B")
        bounds = [0, *(4 * ends).tolist()]
        return b"".join(
            [
                hashlib.blake2b(raw[low:high], digest_size=_DIGEST_BYTES).digest()
                for low, high in itertools.pairwise(bounds)
            ]
        )

    def _digest_in_pieces(self, length: int, number: int) -> bytes:
        """Return the digest of one document, which is read in pieces because it may be long."""
        algorithm = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for begin in range(0, length, BATCH_TOKENS):
            piece = self._next(number, np.array([min(BATCH_TOKENS, length - begin)]))
            algorithm.update(np.ascontiguousarray(piece, dtype="<i4").data)
        self._check_ends(piece[-1:], number)
        return algorithm.digest()

    def _next(self, first: int, ends: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Read the next documents, which end at the positions `ends`. Check, hash and count their tokens."""
        # The file is not memory-mapped: if somebody truncates a mapped file, the process is killed (SIGBUS). After
        # `fromfile`, the memory of each batch is also freed as soon as the batch is processed.
        tokens = np.fromfile(self.handle, dtype=self.file.dtype, count=int(ends[-1]))
        if len(tokens) < ends[-1]:
            raise InputError(
                "the file became shorter while it was read",
                where=str(_bin(self.file.prefix)),
                expected="a file that no other program changes. Run the command again when the file is complete",
            )
        low, high = int(tokens.min()), int(tokens.max())
        known = low >= 0 and high < len(self.byte_lengths)
        spelled = self.byte_lengths[tokens] if known else np.where(tokens == (low if low < 0 else high), -1, 0)
        if spelled.min() < 0:
            place = int(spelled.argmin())
            document = first + int(np.searchsorted(ends, place, side="right"))
            raise InputError(
                f"document {document} has the token id {tokens[place]}, which the tokenizer lacks",
                where=str(_bin(self.file.prefix)),
                expected=f"token ids of {self.tokenizer_path} (0 to {len(self.byte_lengths) - 1}). Use the tokenizer "
                "that encoded the file",
            )
        self.text_bytes += int(spelled.sum(dtype=np.int64))
        self.bin_digest.update(tokens.data)
        return tokens

    def _check_ends(self, last: npt.NDArray[Any], first: int) -> None:
        if self.end is not None and (wrong := np.flatnonzero(last != self.end)).size:
            raise InputError(
                f"document {first + int(wrong[0])} ends with the token id {last[wrong[0]]}",
                where=str(_bin(self.file.prefix)),
                expected=f"the id {self.end}, the end-of-document token of {self.tokenizer_path}. Check that the .bin "
                "and the .idx belong together, that this tokenizer encoded them, and that Megatron-LM ran with "
                "--append-eod. If the files have no end-of-document tokens, set ends_with_end_of_document: false or "
                "use --without-end-of-document",
            )


def _sidecar_rows(digests: bytes, file: TokenFile, first: int, source: str, language: str) -> pa.RecordBatch:
    """Return the sidecar's rows for the documents whose identities are `digests`.

    The first of these documents has the number `first` in the file.
    """
    rows = len(digests) // _DIGEST_BYTES
    hexadecimal = 2 * _DIGEST_BYTES
    bounds = np.arange(0, (rows + 1) * hexadecimal, hexadecimal, dtype=np.int32)
    ids = pa.StringArray.from_buffers(rows, pa.py_buffer(bounds), pa.py_buffer(digests.hex().encode()))
    return pa.record_batch(
        {
            "id": ids,
            "source": pa.repeat(source, rows),
            "language": pa.repeat(language, rows),
            "shard": pa.repeat(file.prefix.name, rows),
            "row": np.arange(first, first + rows, dtype=np.int64),
            "first_token": file.offsets[first : first + rows] // file.dtype.itemsize,
            "tokens": file.lengths[first : first + rows].astype(np.int64),
            "split_key": np.frombuffer(digests, dtype=">u8")[::2].astype(np.uint64),
        },
        schema=SIDECAR_SCHEMA,
    )


def _link(target: Path, link: Path) -> None:
    """Make `link` an absolute symbolic link to `target`. An existing file or link is replaced atomically."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    with explained(link):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target.absolute())
        temporary.replace(link)
        fsync_folder(link.parent)


def _place(prefix: Path) -> Path:
    """Return the path `prefix` after resolving all symbolic links in its folder."""
    return prefix.parent.resolve() / prefix.name


def _bin(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".bin")


def _idx(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".idx")
