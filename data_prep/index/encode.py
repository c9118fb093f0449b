"""Clean shards become one Megatron `.bin/.idx` pair and a sidecar that says where each document came from.

Documents keep the order of the shards as given, and of each shard; each ends with one end-of-document token. The same
shards in one call give the documents that they give one by one. Nothing is held for a whole shard but 4 bytes a
document: tokens and sidecar are written as they come. 1.6 TB of text take 13 core-hours at 35 MB/s (bench/encode.py;
loading a tokenizer of 250,680 tokens takes 2 s a job), 1.4 TB of int32 tokens and, of 500 M documents, 10 GB of `.idx`.

Order of writing: `.bin`, sidecar with its manifest (which holds the digests of both others), `.idx` last, each renamed
into place; a prefix without its `.idx` does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.atomic import atomic_path
from bloomery.base.digest import digest_file, document_id
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.contracts.index import dump_idx, token_dtype
from bloomery.contracts.tokenizer import end_of_document, vocabulary_size
from data_prep.formats.documents import Documents, open_documents
from data_prep.formats.shard import TableWriter
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.index.encoder import Encoder, load_encoder
from data_prep.index.split_keys import clusters_of, split_keys

COLUMNS = ("id", "source", "language", "text")
GROUP_BYTES = 4 << 20
"""Text encoded in one call: enough for all cores where `tokenizers` encodes, about 0.5 GB of encodings at worst."""
SAMPLE_CHARACTERS = 256 << 10
"""Of the shard's own first texts, on which both encoders must agree."""
MAX_DOCUMENT_TOKENS = 2**31 - 1
"""The `.idx` holds lengths as int32."""


def encode_shards(
    tokenizer_path: Path, shards: Sequence[Path], prefix: Path, survivors: Sequence[Path] = ()
) -> dict[str, Any]:
    """Encode `shards` and write `<prefix>.bin`, `<prefix>.documents.parquet`, `<prefix>.idx`.

    Args:
        tokenizer_path: `tokenizer.json`, its roles of tokens in the files beside it.
        shards: tables of documents, at least one, each `.../<source>/<number>.parquet`.
        prefix: path of the pair, without suffix.
        survivors: the tables of documents that stay though they belong to a cluster of duplicates.

    Returns:
        The sidecar's manifest. `counts`: documents, tokens (ends of documents included), bytes of text per language.

    Raises:
        InputError: unreadable tokenizer or shard, a shard given twice, a document beyond 2^31 - 1 tokens.
        ResourceError: no space or permission.
    """
    tables = {_shard_name(path): open_documents(path, COLUMNS) for path in shards}
    if len(tables) < len(shards):
        raise InputError("two shards of the same name", where=str(prefix), expected="each of them once")
    encoder = load_encoder(tokenizer_path, _first_texts(tables.values()))
    end = end_of_document(tokenizer_path, encoder.tokenizer)
    dtype = token_dtype(vocabulary_size(encoder.tokenizer))
    idx, binary = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    with atomic_path(idx) as idx_temporary:
        with TableWriter.open(sidecar_path(prefix), SIDECAR_SCHEMA) as sidecar, atomic_path(binary) as bin_temporary:
            rows = sum(table.rows for table in tables.values())
            with bin_temporary.open("wb") as handle, Progress(f"encode {prefix.name}", rows) as bar:
                pair = _Pair(encoder, end, dtype, handle, sidecar, bar)
                for name, table in tables.items():
                    pair.add(name, table, clusters_of(survivors, name))
            dump_idx(idx_temporary, np.concatenate([np.empty(0, np.int32), *pair.lengths]), dtype)
            digests = {"bin_digest": digest_file(bin_temporary), "idx_digest": digest_file(idx_temporary)}
            # An old one must not stand beside a new .bin, not even for a moment.
            idx.unlink(missing_ok=True)
        return sidecar.manifest(
            kind="token_documents",
            inputs={name: table.digest() for name, table in tables.items()},
            parameters=digest_file(tokenizer_path),
            counts={
                "documents": sidecar.rows,
                "tokens": pair.tokens,
                **digests,
                "languages": {code: pair.languages[code] for code in sorted(pair.languages)},
            },
        )


def _shard_name(path: Path) -> str:
    """`corpus/clean/wiki/00000.parquet` -> `wiki/00000`."""
    return "/".join(path.absolute().with_suffix("").parts[-2:])


def _first_texts(tables: Iterable[Documents]) -> list[str]:
    """The first texts, and the beginning of one more, of `SAMPLE_CHARACTERS` together."""
    found: list[str] = []
    room = SAMPLE_CHARACTERS
    for table in tables:
        for batch in table.batches():
            for text in batch.column("text"):
                found.append(text.as_py()[:room])
                room -= len(found[-1])
                if room == 0:
                    return found
    return found


@dataclass
class _Pair:
    """Streams documents into a pair's `.bin` and sidecar."""

    encoder: Encoder
    end: int
    dtype: np.dtype[Any]
    handle: BinaryIO
    sidecar: TableWriter
    bar: Progress
    lengths: list[npt.NDArray[np.int32]] = field(default_factory=list)
    """Tokens of each document, its end counted: all that is kept for the `.idx`."""
    tokens: int = 0
    languages: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per language: documents, bytes of text, tokens."""

    def add(self, shard: str, table: Documents, clusters: Mapping[str, str]) -> None:
        """Add all documents of a shard. Raises InputError."""
        row = 0
        for batch in table.batches():
            for part in _groups(batch):
                lengths = self._write_tokens(part)
                self._write_sidecar(part, shard, row, lengths, _split_keys(part, table.has_manifest, clusters))
                self._count(part, lengths)
                row += part.num_rows
                self.bar.advance(part.num_rows)
        if row != table.rows:
            raise InputError(f"holds {row} documents", where=str(table.path), expected=f"{table.rows}")

    def _write_tokens(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        tokens, lengths = self.encoder.encode(batch.column("text"), self.end)
        if len(lengths) and lengths.max() > MAX_DOCUMENT_TOKENS:
            longest = int(lengths.argmax())
            raise InputError(
                f"document {batch.column('id')[longest]} has {lengths[longest]} tokens",
                expected=f"at most {MAX_DOCUMENT_TOKENS}, which is all that the .idx can say",
            )
        # Not tofile(): its error at a full disk has no errno.
        self.handle.write(tokens.astype(self.dtype, copy=False).data)
        self.lengths.append(lengths.astype(np.int32))
        return lengths

    def _write_sidecar(
        self,
        batch: pa.RecordBatch,
        shard: str,
        row: int,
        lengths: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
    ) -> None:
        count = batch.num_rows
        columns = {
            **{name: batch.column(name) for name in ("id", "source", "language")},
            "shard": pa.repeat(shard, count),
            "row": np.arange(row, row + count, dtype=np.int64),
            "first_token": self.tokens + np.cumsum(lengths) - lengths,
            "tokens": lengths,
            "split_key": keys,
        }
        self.sidecar.write(pa.table(columns, schema=SIDECAR_SCHEMA))
        self.tokens += int(lengths.sum())

    def _count(self, batch: pa.RecordBatch, lengths: npt.NDArray[np.int64]) -> None:
        table = pa.table(
            {"code": batch.column("language"), "bytes": pc.binary_length(batch.column("text")), "tokens": lengths}
        )
        sums = table.group_by("code").aggregate([("code", "count"), ("bytes", "sum"), ("tokens", "sum")])
        for found in sums.to_pylist():
            own = self.languages.setdefault(found["code"], {"documents": 0, "bytes": 0, "tokens": 0})
            own["documents"] += found["code_count"]
            own["bytes"] += found["bytes_sum"]
            own["tokens"] += found["tokens_sum"]


def _split_keys(batch: pa.RecordBatch, ours: bool, clusters: Mapping[str, str]) -> npt.NDArray[np.uint64]:
    """uint64 [n]: the split keys of documents. Ids that are not ours are hashed first, as ours were."""
    ids = batch.column("id")
    if not ours:
        pairs = zip(batch.column("source").to_pylist(), ids.to_pylist(), strict=True)
        ids = pa.array([document_id(source, key) for source, key in pairs], pa.string())
    return split_keys(ids, clusters)


def _groups(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Neighbouring documents of at most `GROUP_BYTES` of text together (a longer one stands alone)."""
    ends = np.cumsum(np.asarray(pc.binary_length(batch.column("text")), dtype=np.int64))
    begin, before = 0, 0
    while begin < batch.num_rows:
        end = max(begin + 1, int(np.searchsorted(ends, before + GROUP_BYTES, side="right")))
        yield batch.slice(begin, end - begin)
        begin, before = end, int(ends[end - 1])
