"""Token files that Megatron-LM's preprocessing wrote become token files of a run: verified, linked, described.

Nothing of the user's is written to: the run gets links to the pair and a sidecar like those that `encode` writes. The
format says neither which tokenizer made it nor whether it is whole, so everything that can be checked is, in one pass
over both files: header, sizes, offsets, document bounds, every token, every document's end.

A document's identity is the digest of its tokens (as int32, whatever the file's type): equal documents fall on the same
side of the validation split, and files that are added move nothing. 1 GB of tokens takes about 4 s on one core
(two digests and a look at each token), in 0.3 GB of memory however long the file.
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
from bloomery.base.digest import digest_file
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
    """Verify the pair at `prefix`, write the sidecar of `output`, then link `<output>.bin` and, last, `<output>.idx`.

    Args:
        prefix: path of the user's pair, without suffix.
        tokenizer_path: `tokenizer.json` that the files were encoded with, its roles of tokens in the files beside it.
        source: name of the source.
        language: code of every document.
        output: path of the run's pair, without suffix.
        ends_with_end_of_document: whether every document ends with the tokenizer's end-of-document token.

    Returns:
        The sidecar's manifest.

    Raises:
        InputError: files that are missing, cut, swapped, foreign or of several sequences a document, tokens that the
            tokenizer lacks, a document without its end.
        ResourceError: no space or permission.
    """
    if _place(prefix) == _place(output):
        raise InputError("would take the place of what it links to", where=str(output), expected="a path of its own")
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
            "languages": {language: size} if size["documents"] else {},
            "ends_with_end_of_document": ends_with_end_of_document,
        },
    )
    _link(_bin(prefix), _bin(output))
    _link(_idx(prefix), _idx(output))
    return manifest


def prefix_of(path: Path) -> Path:
    """A pair's path without suffix, from that of either of its files or from the prefix itself."""
    return path.with_suffix("") if path.suffix in (".bin", ".idx") else path


def _refuse_split_documents(file: TokenFile) -> None:
    """Raise InputError where a document is more than one sequence; one without a sequence is an empty text."""
    for begin in range(0, len(file.documents) - 1, BATCH_TOKENS):
        sequences = np.diff(file.documents[begin : begin + BATCH_TOKENS + 1])
        if (split := np.flatnonzero(sequences > 1)).size:
            raise InputError(
                f"document {begin + split[0]} is {sequences[split[0]]} sequences",
                where=str(_idx(file.prefix)),
                expected="one sequence a document; files that are split into sentences, as for BERT and T5, must be "
                "written again without --split-sentences",
            )


def _batches(file: TokenFile) -> Iterator[tuple[int, int]]:
    """(first document, documents) of runs of at most `BATCH_TOKENS` tokens, or of one longer document."""
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
    """Goes once over all tokens of a pair, in order: checks them, counts their text, digests file and documents."""

    file: TokenFile
    handle: BinaryIO
    """The `.bin`."""
    byte_lengths: npt.NDArray[np.int32]
    """Of each token; negative where the id has none."""
    end: int | None
    tokenizer_path: Path
    text_bytes: int = 0
    bin_digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES))

    def documents(self, first: int, rows: int) -> bytes:
        """Digests of the documents from `first` on, `_DIGEST_BYTES` each. Raises InputError for what is wrong."""
        file = self.file
        lengths = file.lengths[first : first + rows].astype(np.int64)
        if lengths.min() == 0:
            raise InputError(f"sequence {first + int(lengths.argmin())} is empty", where=str(_idx(file.prefix)))
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
        """Of one document, which may be longer than what is held at a time."""
        algorithm = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for begin in range(0, length, BATCH_TOKENS):
            piece = self._next(number, np.array([min(BATCH_TOKENS, length - begin)]))
            algorithm.update(np.ascontiguousarray(piece, dtype="<i4").data)
        self._check_ends(piece[-1:], number)
        return algorithm.digest()

    def _next(self, first: int, ends: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Read the next tokens, of documents that end at `ends`; check them, count their text, digest the file."""
        # Not mapped: what was read goes, and a file that somebody cuts meanwhile is an error, not the process' end.
        tokens = np.fromfile(self.handle, dtype=self.file.dtype, count=int(ends[-1]))
        if len(tokens) < ends[-1]:
            raise InputError("became shorter while it was read", where=str(_bin(self.file.prefix)))
        low, high = int(tokens.min()), int(tokens.max())
        known = low >= 0 and high < len(self.byte_lengths)
        spelled = self.byte_lengths[tokens] if known else np.where(tokens == (low if low < 0 else high), -1, 0)
        if spelled.min() < 0:
            place = int(spelled.argmin())
            document = first + int(np.searchsorted(ends, place, side="right"))
            raise InputError(
                f"token {tokens[place]} in document {document}",
                where=str(_bin(self.file.prefix)),
                expected=f"an id of {self.tokenizer_path}, 0 to {len(self.byte_lengths) - 1}: the tokenizer that the "
                "file was encoded with",
            )
        self.text_bytes += int(spelled.sum(dtype=np.int64))
        self.bin_digest.update(tokens.data)
        return tokens

    def _check_ends(self, last: npt.NDArray[Any], first: int) -> None:
        if self.end is not None and (wrong := np.flatnonzero(last != self.end)).size:
            raise InputError(
                f"document {first + int(wrong[0])} ends with token {last[wrong[0]]}",
                where=str(_bin(self.file.prefix)),
                expected=f"{self.end}, the end of document of {self.tokenizer_path}: its own .idx, the tokenizer that "
                "it was encoded with, and --append-eod; or, where the files have none, ends_with_end_of_document: "
                "false (--without-end-of-document)",
            )


def _sidecar_rows(digests: bytes, file: TokenFile, first: int, source: str, language: str) -> pa.RecordBatch:
    """Rows of the sidecar for documents from `first` on, whose identities are `digests`."""
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
    """Make `link` an absolute symbolic link to `target`, in one step whatever lay there."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    with explained(link):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target.absolute())
        temporary.replace(link)
        fsync_folder(link.parent)


def _place(prefix: Path) -> Path:
    """Where a prefix lies, whatever links lead there."""
    return prefix.parent.resolve() / prefix.name


def _bin(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".bin")


def _idx(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".idx")
