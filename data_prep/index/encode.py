"""One clean shard becomes one Megatron `.bin/.idx` pair and a sidecar that says where each document came from.

Documents keep the shard's order, each ends with one end-of-document token, and nothing is held for the whole shard but
20 bytes a document and the sidecar's columns. Text that happens to spell a special token (`</s>` in HTML) is encoded as
text: an end of document in the token stream is always a real one.

Order of writing: `.bin`, sidecar with its manifest (which holds the digest of the `.bin`), `.idx` last, each renamed
into place; a prefix without its `.idx` does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.atomic import atomic_path
from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.contracts.index import SIDECAR_SCHEMA, sidecar_path, token_dtype, write_idx
from bloomery.contracts.shard import iterate_batches, read_manifest, write_table
from data_prep.index.keys import id_hashes
from data_prep.tokenizer.vocabulary import END_OF_DOCUMENT, load_tokenizer

GROUP_BYTES = 4 << 20
"""Text encoded in one call: enough for all cores, about 0.5 GB of encodings at worst."""
MAX_DOCUMENT_TOKENS = 2**31 - 1
"""The `.idx` holds lengths as int32."""


def encode_shard(tokenizer_path: Path, clean: Path, idx: Path) -> dict[str, Any]:
    """Encode `clean` and write `<prefix>.bin`, `<prefix>.documents.parquet`, `<prefix>.idx`.

    Args:
        tokenizer_path: `tokenizer.json`.
        clean: a shard of documents.
        idx: the `.idx` to write; the other files share its stem.

    Returns:
        The sidecar's manifest.

    Raises:
        InputError: unreadable tokenizer or shard, a document beyond 2^31 - 1 tokens.
        ResourceError: no space or permission.
    """
    prefix = idx.with_suffix("")
    tokenizer = load_tokenizer(tokenizer_path)
    tokenizer.encode_special_tokens = True
    end = tokenizer.token_to_id(END_OF_DOCUMENT)
    dtype = token_dtype(tokenizer.get_vocab_size())
    rows = int(read_manifest(clean)["rows"])
    columns: list[pa.RecordBatch] = []
    binary = prefix.with_name(prefix.name + ".bin")
    with atomic_path(binary) as temporary:
        with temporary.open("wb") as handle, Progress(f"encode {clean.stem}", rows) as bar:
            lengths = _encode_all(tokenizer, end, dtype, clean, handle, columns, bar)
        bin_digest = digest_file(temporary)
    _write_sidecar(prefix, lengths, columns, digest_file(clean), digest_file(tokenizer_path), bin_digest)
    write_idx(idx, lengths, dtype)
    return read_manifest(sidecar_path(prefix))


def _encode_all(
    tokenizer: Any,
    end: int,
    dtype: np.dtype[Any],
    clean: Path,
    handle: BinaryIO,
    columns: list[pa.RecordBatch],
    bar: Progress,
) -> npt.NDArray[np.int32]:
    """Stream the shard's tokens into `handle`; lengths int32 [documents], end-of-document token counted."""
    counts: list[npt.NDArray[np.int32]] = [np.empty(0, dtype=np.int32)]
    for batch in iterate_batches(clean, ["id", "source", "language", "text"]):
        columns.append(batch.select(["id", "source", "language"]))
        for texts in _groups(batch.column("text")):
            encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            tokens, lengths = _with_ends([encoding.ids for encoding in encodings], end, dtype)
            handle.write(tokens.data)  # not tofile(): its error at a full disk has no errno
            counts.append(lengths)
            bar.advance(len(texts))
    return np.concatenate(counts)


def _groups(texts: pa.Array) -> Iterator[list[str]]:
    """Lists of neighbouring texts of at most `GROUP_BYTES` together (a longer text stands alone)."""
    ends = np.cumsum(np.asarray(pc.binary_length(texts), dtype=np.int64))
    begin, before = 0, 0
    while begin < len(texts):
        end = max(begin + 1, int(np.searchsorted(ends, before + GROUP_BYTES, side="right")))
        yield texts.slice(begin, end - begin).to_pylist()
        begin, before = end, int(ends[end - 1])


def _with_ends(
    documents: list[list[int]], end: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Documents laid end to end, each followed by `end`; and their lengths."""
    lengths = np.fromiter((len(ids) + 1 for ids in documents), dtype=np.int64, count=len(documents))
    if len(lengths) and int(lengths.max()) > MAX_DOCUMENT_TOKENS:
        raise InputError(f"a document of {int(lengths.max())} tokens", expected=f"at most {MAX_DOCUMENT_TOKENS}")
    tokens = np.full(int(lengths.sum()), end, dtype=dtype)
    position = 0
    for ids in documents:
        tokens[position : position + len(ids)] = ids
        position += len(ids) + 1
    return tokens, lengths.astype(np.int32)


def _write_sidecar(
    prefix: Path,
    lengths: npt.NDArray[np.int32],
    columns: list[pa.RecordBatch],
    clean_digest: str,
    tokenizer_digest: str,
    bin_digest: str,
) -> None:
    tokens = lengths.astype(np.int64)
    ends = np.cumsum(tokens)
    names = ("id", "source", "language")
    table = pa.table(
        {
            **{name: pa.chunked_array([batch.column(name) for batch in columns], pa.string()) for name in names},
            "shard": pa.repeat("/".join(prefix.parts[-2:]), len(tokens)),
            "row": np.arange(len(tokens), dtype=np.int64),
            "first_token": ends - tokens,
            "tokens": tokens,
            "split_key": id_hashes(pa.chunked_array([batch.column("id") for batch in columns], pa.string())),
        },
        schema=SIDECAR_SCHEMA,
    )
    write_table(
        sidecar_path(prefix),
        table,
        kind="token_documents",
        inputs={"clean": clean_digest},
        parameters=tokenizer_digest,
        counts={"tokens": int(tokens.sum()), "bin_digest": bin_digest},
    )
