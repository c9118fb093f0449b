"""Encode clean shards into one Megatron `.bin/.idx` pair and a sidecar that records where each document came from.

Shards are encoded in the order given, and documents keep their order in the shard. Each document ends with one
end-of-document token. Encoding several shards in one call gives the same documents as encoding each one alone.
Tokens and sidecar are streamed, so memory holds only 4 bytes per document. 1.6 TB of text takes 13 core-hours at
35 MB/s (bench/encode.py). Each job takes 2 s to load a tokenizer of 250,680 tokens. The output is 1.4 TB of int32
tokens and, for 500 M documents, 10 GB of `.idx`.

Files are renamed into place in this order: `.bin`, the sidecar, the sidecar's manifest with the digests of `.bin` and
`.idx`, and the `.idx` last. Readers must treat a prefix without `.idx` as missing.
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
from data_prep.formats.shard import TableWriter, read_manifest
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.index.encoder import Encoder, load_encoder
from data_prep.index.split_keys import clusters_of, split_keys

COLUMNS = ("id", "source", "language", "text")
GROUP_BYTES = 4 << 20
"""Bytes of text in one call of the encoder. `tokenizers` can then use all cores and needs at most about 0.5 GB of
memory."""
SAMPLE_CHARACTERS = 256 << 10
"""Number of characters, from the first texts of the shards, that both encoders must encode to the same tokens."""
MAX_DOCUMENT_TOKENS = 2**31 - 1
"""Maximum number of tokens of a document, because the `.idx` stores lengths as int32."""


def encode_shards(
    tokenizer_path: Path, shards: Sequence[Path], prefix: Path, survivors: Sequence[Path] = ()
) -> dict[str, Any]:
    """Encode `shards` and write `<prefix>.bin`, `<prefix>.documents.parquet` and `<prefix>.idx`.

    Args:
        tokenizer_path: `tokenizer.json`. Files in the same folder name the special tokens.
        shards: tables of documents, at least one, each `.../<source>/<number>.parquet`.
        prefix: path of the pair, without suffix.
        survivors: tables of kept documents whose cluster of duplicates has several kept documents.

    Returns:
        The sidecar's manifest. Its `counts` hold the documents, the tokens (with end-of-document tokens), the digests
        of the pair, and the documents, bytes of text and tokens of each language.

    Raises:
        InputError: the tokenizer or a shard cannot be read, two shards have the same name, or a document has more
            than 2^31 - 1 tokens.
        ResourceError: the disk is full or a permission is missing.
    """
    tables = {_shard_name(path): open_documents(path, COLUMNS) for path in shards}
    if len(tables) < len(shards):
        names = [_shard_name(path) for path in shards]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"two shards with the name {twice!r} were given",
            where=str(prefix),
            expected="each shard only once. A shard's name is its folder and file name: <source>/<number>.parquet",
        )
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
            # Remove the old .idx before the new .bin is renamed into place, because the old one does not match it.
            idx.unlink(missing_ok=True)
        return sidecar.manifest(
            kind="token_documents",
            inputs={name: table.digest() for name, table in tables.items()}
            | {path.stem: read_manifest(path)["file"]["digest"] for path in survivors},
            parameters=digest_file(tokenizer_path),
            counts={
                "documents": sidecar.rows,
                "tokens": pair.tokens,
                **digests,
                "languages": {code: pair.languages[code] for code in sorted(pair.languages)},
            },
        )


def _shard_name(path: Path) -> str:
    """Return the shard's name: `wiki/00000` for `corpus/clean/wiki/00000.parquet`."""
    return "/".join(path.absolute().with_suffix("").parts[-2:])


def _first_texts(tables: Iterable[Documents]) -> list[str]:
    """Return the first `SAMPLE_CHARACTERS` characters of the texts. The last text may be cut."""
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
    """Tokens of each document, with its end-of-document token. The `.idx` needs nothing else."""
    tokens: int = 0
    languages: dict[str, dict[str, int]] = field(default_factory=dict)
    """Documents, bytes of text and tokens of each language."""

    def add(self, shard: str, table: Documents, clusters: Mapping[str, str]) -> None:
        """Add all documents of a shard.

        Raises:
            InputError: the table holds another number of documents than its metadata states, or a document is too long.
        """
        row = 0
        for batch in table.batches():
            for part in _groups(batch):
                lengths = self._write_tokens(part, table.path)
                self._write_sidecar(part, shard, row, lengths, _split_keys(part, table, clusters))
                self._count(part, lengths)
                row += part.num_rows
                self.bar.advance(part.num_rows)
        if row != table.rows:
            raise InputError(
                f"the table holds {row} documents",
                where=str(table.path),
                expected=f"{table.rows} documents, as the metadata of the Parquet file states. Write the file again",
            )

    def _write_tokens(self, batch: pa.RecordBatch, shard: Path) -> npt.NDArray[np.int64]:
        tokens, lengths = self.encoder.encode(batch.column("text"), self.end)
        if len(lengths) and lengths.max() > MAX_DOCUMENT_TOKENS:
            longest = int(lengths.argmax())
            raise InputError(
                f"document {batch.column('id')[longest]} has {lengths[longest]} tokens",
                where=str(shard),
                expected=f"at most {MAX_DOCUMENT_TOKENS} tokens, the most that the .idx format can store. Split or "
                "remove the document",
            )
        # tofile() would raise an error without errno when the disk is full.
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


def _split_keys(batch: pa.RecordBatch, shard: Documents, clusters: Mapping[str, str]) -> npt.NDArray[np.uint64]:
    """Return the split keys of documents, uint64 [n].

    If the shard has a manifest, the ids are hashes that this project computed. Other ids are first hashed together with
    the name of their source.
    """
    ids = batch.column("id")
    if not shard.has_manifest:
        pairs = zip(batch.column("source").to_pylist(), ids.to_pylist(), strict=True)
        ids = pa.array([document_id(source, key) for source, key in pairs], pa.string())
    return split_keys(ids, clusters, where=str(shard.path))


def _groups(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield groups of consecutive documents. A group has up to `GROUP_BYTES` bytes of text, or one longer document."""
    ends = np.cumsum(np.asarray(pc.binary_length(batch.column("text")), dtype=np.int64))
    begin, before = 0, 0
    while begin < batch.num_rows:
        end = max(begin + 1, int(np.searchsorted(ends, before + GROUP_BYTES, side="right")))
        yield batch.slice(begin, end - begin)
        begin, before = end, int(ends[end - 1])
