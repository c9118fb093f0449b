"""Claim: counting pre-tokens reads at least 50 MB/s on one core, at least 10 times the speed of `tokenizers`.

    python bench/tokenizer_count.py > bench/results/tokenizer_count.json

The workflow needs 10 MB/s. The peer is `pre_tokenize_str` with the preset's pattern (only the split, without the
byte-level step) and one `collections.Counter` for each language. It runs in turn with our kernel on the same texts, and
the counts must be equal. `job` is the workflow's job on every language: it reads the shard and checks its digest,
counts, sorts and writes the table.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from _support import (
    Contender,
    Document,
    Floor,
    batches,
    evenly,
    finish,
    in_turn,
    megabytes,
    one_core,
    parser,
    read_documents,
    spread,
    times_faster,
    write_shard,
)
from tokenizers import Regex, pre_tokenizers

from bloomery.config.stages import CountStage
from data_prep.corpus.columns import text_buffers
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.pre_tokenizer import PRESETS

FLOOR_MEGABYTES_PER_SECOND = 50.0
FLOOR_TIMES_FASTER = 10.0

Counts = dict[str, dict[str, int]]


def kernel(documents: list[Document], preset: str) -> Callable[[], Any]:
    """Return a function that counts the documents with our kernel, from Arrow columns like those of a shard."""
    codes = sorted({document.language for document in documents})
    columns = []
    for batch in batches(documents):
        languages = np.array([codes.index(code) for code in batch["language"].to_pylist()], np.int64)
        columns.append((*text_buffers(batch["text"]), languages))

    def run() -> Any:
        counter = _bpe.Counter(preset, False)
        for column in columns:
            counter.add(*column)
        return counter

    return run


def counted(counter: Any, codes: list[str]) -> Counts:
    """Return the kernel's counts by language. The kernel numbers languages in the order of `codes`."""
    found: Counts = {}
    for number, code in enumerate(codes):
        pieces, offsets, counts = counter.drain(number, 1 << 40)
        texts = pa.LargeStringArray.from_buffers(len(counts), pa.py_buffer(offsets), pa.py_buffer(pieces))
        found[code] = dict(zip(texts.to_pylist(), counts.tolist(), strict=True))
    return found


def peer(documents: list[Document], preset: str) -> Callable[[], Counts]:
    split = pre_tokenizers.Split(Regex(PRESETS[preset]), behavior="isolated")

    def run() -> Counts:
        counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for document in documents:
            counters[document.language].update(piece for piece, _ in split.pre_tokenize_str(document.text))
        return {code: dict(counter) for code, counter in counters.items()}

    return run


def job(shard: Path, preset: str) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        with contextlib.redirect_stderr(io.StringIO()):
            return count_shards(CountStage(pre_tokenizer=preset), [shard], shard.with_name(f"{preset}.parquet"))

    return run


def main() -> int:
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--peer-bytes", type=int, default=8_000_000, help="bytes of text for the comparison with the peer"
    )
    options = options_parser.parse_args()
    one_core()
    documents = read_documents(options.languages, options.bytes_per_language)
    small = evenly(documents, options.peer_bytes)
    with tempfile.TemporaryDirectory() as folder:
        shard = Path(folder) / "shard.parquet"
        write_shard(shard, batches(documents))
        contenders = {}
        for preset in PRESETS:
            contenders |= {
                f"kernel_{preset}": Contender(megabytes(small), kernel(small, preset)),
                f"tokenizers_{preset}": Contender(megabytes(small), peer(small, preset)),
                f"kernel_all_{preset}": Contender(megabytes(documents), kernel(documents, preset)),
                f"job_all_{preset}": Contender(megabytes(documents), job(shard, preset)),
            }
        speeds = in_turn(contenders, options.repeats)
        jobs = {preset: job(shard, preset)() for preset in PRESETS}
    codes = sorted({document.language for document in small})
    same = all(counted(kernel(small, preset)(), codes) == peer(small, preset)() for preset in PRESETS)
    faster = {preset: times_faster(speeds, f"kernel_{preset}", f"tokenizers_{preset}") for preset in PRESETS}
    floors = [
        floor
        for preset in PRESETS
        for floor in (
            Floor(f"kernel_all_{preset}", median(speeds[f"kernel_all_{preset}"]), FLOOR_MEGABYTES_PER_SECOND),
            Floor(f"job_all_{preset}", median(speeds[f"job_all_{preset}"]), FLOOR_MEGABYTES_PER_SECOND),
            Floor(f"times faster, {preset}", median(faster[preset]), FLOOR_TIMES_FASTER),
        )
    ]
    result = {
        "documents": len(documents),
        "languages": len({document.language for document in documents}),
        "megabytes": round(megabytes(documents), 1),
        "peer_megabytes": round(megabytes(small), 1),
        "pre_tokens": {preset: sum(made["counts"]["pre_tokens"].values()) for preset, made in jobs.items()},
        "unique": {preset: made["rows"] for preset, made in jobs.items()},
        "megabytes_per_second_one_core": {name: spread(values, 1) for name, values in speeds.items()},
        "times_faster": {preset: spread(values, 1) for preset, values in faster.items()},
        "same_counts": same,
    }
    return finish("tokenizer_count", result, floors, same_counts=same)


if __name__ == "__main__":
    sys.exit(main())
