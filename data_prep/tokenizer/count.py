"""Pre-token counts of one clean shard: all that tokenizer training needs to know of its text.

Counts can be made on a cluster, one job a shard, and trained on centrally; another mixture or vocabulary reads no text
again. Memory is one counter of the shard's unique pieces (about 150 bytes each: below 1 GB for a 256 MB shard).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bloomery.base.digest import digest_file, digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import CountStage
from bloomery.contracts.shard import iterate_batches, read_manifest, write_table
from data_prep.tokenizer.pre_tokenizer import split

COUNT_SCHEMA = pa.schema([("language", pa.string()), ("piece", pa.string()), ("count", pa.int64())])
"""Sorted by (language, piece); a piece is text, its UTF-8 bytes are what is trained on."""


def count_shard(stage: CountStage, clean: Path, output: Path) -> dict[str, Any]:
    """Count the pre-tokens of `clean` per language and write them; returns the manifest. Raises InputError."""
    counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with Progress(f"count {clean.stem}", int(read_manifest(clean)["rows"])) as bar:
        for batch in iterate_batches(clean, ["language", "text"]):
            for language, text in zip(batch.column("language"), batch.column("text"), strict=True):
                counters[language.as_py()].update(split(text.as_py()))
            bar.advance(batch.num_rows)
    table = pa.concat_tables(
        [COUNT_SCHEMA.empty_table(), *(_sorted(code, counters[code]) for code in sorted(counters))]
    )
    return write_table(
        output,
        table,
        kind="pre_token_counts",
        inputs={"clean": digest_file(clean)},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"pre_tokens": {code: counters[code].total() for code in sorted(counters)}},
    )


def _sorted(language: str, counter: Counter[str]) -> pa.Table:
    pieces = sorted(counter)  # code point order, which is also the order of the UTF-8 bytes
    counts = np.fromiter((counter[piece] for piece in pieces), dtype=np.int64, count=len(pieces))
    return pa.table([pa.repeat(language, len(pieces)), pa.array(pieces, pa.string()), counts], schema=COUNT_SCHEMA)
