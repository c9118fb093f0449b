"""The sidecar of a token file: which documents its tokens are. Training reads `index`, and has no pyarrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

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
its span of tokens in the `.bin`, and the hash that assigns it to training or validation: the first 64 bits of its id,
or of the id of its cluster of duplicates."""


def sidecar_path(prefix: Path) -> Path:
    """`index/tokens/wiki/00000` -> `index/tokens/wiki/00000.documents.parquet`."""
    return prefix.with_name(prefix.name + ".documents.parquet")
