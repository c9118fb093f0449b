"""Schema and path of a sidecar. A sidecar is a table beside a token file, with one row per document of the file.

The training does not import pyarrow. It reads the arrays of the index instead of sidecars.
"""

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
"""Columns of a sidecar. Rows are documents in the order of the `.idx`. `shard` (`source/00000`) and `row` give the
document's place in the clean shards. `first_token` and `tokens` give the document's range of tokens in the `.bin`.
`split_key` assigns the document to training or validation. It is the first 64 bits of the document's id, or of the id
of the best document in its cluster of duplicates."""

TOKEN_FILE_SUFFIXES = (".bin", ".idx", ".documents.parquet", ".documents.json")
"""Suffixes of a pair of token files, of its sidecar and of the sidecar's manifest."""


def sidecar_path(prefix: Path) -> Path:
    """Return the sidecar's path: `index/tokens/wiki/00000` -> `index/tokens/wiki/00000.documents.parquet`."""
    return prefix.with_name(prefix.name + ".documents.parquet")
