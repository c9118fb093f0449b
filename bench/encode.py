"""Claim: encoding on one core is at least 5 times as fast as `tokenizers`, at least 30 MB/s, and needs constant memory.

    python bench/encode.py > bench/results/encode.json

The tokenizer has BLOOM's pre-tokenizer and a vocabulary of 250,680 (`--vocabulary`), trained on the same texts. The
peer is `encode_batch_fast` on one thread, including the conversion of the ids to Python. Our encoder and the peer run
in turn on a part of the texts and must give the same ids. Both keep their caches between rounds. The peer's cache
contains pieces of these texts only. Between rounds, our encoder also encodes all texts, so its cache contains pieces of
other texts, too, as in the middle of a job.

`jobs` in the result shows how time and memory grow: the workflow's job runs on a sixteenth, a quarter and all of the
texts, each time in its own process. The job loads and probes the tokenizer, reads the shard and checks its digest,
encodes, and writes `.bin`, `.idx` and sidecar.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

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

from bloomery.base.digest import document_id
from bloomery.config.stages import CountStage
from bloomery.config.tokens import TokenizerTraining
from bloomery.contracts.tokenizer import TOKENIZER, load_tokenizer
from data_prep.corpus.columns import text_buffers
from data_prep.index.encode import encode_shards
from data_prep.index.encoder import compiled_encoder
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.train import train

FLOOR_MEGABYTES_PER_SECOND = 30.0
FLOOR_TIMES_FASTER = 5.0
FLOOR_OF_GROWTH = 0.7
"""Required minimum of two ratios: the job's speed on its last texts divided by its speed on its first texts, and the
memory of the smallest job divided by that of the largest."""


def trained(shard: Path, vocabulary: int, folder: Path) -> Path:
    """Train a tokenizer on the shard into `folder`, and return the path of its tokenizer.json."""
    counts = folder / "counts.parquet"
    with contextlib.redirect_stderr(io.StringIO()):
        count_shards(CountStage(pre_tokenizer="bloom"), [shard], counts)
        train(TokenizerTraining(vocabulary_size=vocabulary), find_tables([counts]), None, folder)
    return folder / TOKENIZER


def ours(columns: list[pa.Array], encoder: Any) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        return [encoder.encode(*text_buffers(column), -1) for column in columns]

    return run


def peer(columns: list[pa.Array], tokenizer: Any) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        return [
            [found.ids for found in tokenizer.encode_batch_fast(column.to_pylist(), add_special_tokens=False)]
            for column in columns
        ]

    return run


def same_ids(found: list[Any], wanted: list[Any]) -> bool:
    return all(
        tokens.tolist() == [token for ids in documents for token in ids]
        and lengths.tolist() == list(map(len, documents))
        for (tokens, lengths), documents in zip(found, wanted, strict=True)
    )


def job(shard: Path, tokenizer: Path) -> dict[str, Any]:
    """Run one job in this process, and return its processor seconds, peak memory and number of tokens."""
    one_core()
    start = time.process_time()
    with contextlib.redirect_stderr(io.StringIO()):
        counts = encode_shards(tokenizer, [shard], shard.with_suffix(""))["counts"]
    seconds = time.process_time() - start
    # The peak memory of getrusage is not usable: it is kept across exec, so a child would start with its parent's peak.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    return {"seconds": round(seconds, 2), "peak_megabytes": round(peak / 1e6), "tokens": counts["tokens"]}


def grown(documents: list[Document], tokenizer: Path, folder: Path) -> list[dict[str, Any]]:
    """Run the job on a sixteenth, a quarter and all of the texts, each in its own process."""
    found = []
    for part in (16, 4, 1):
        taken = evenly(documents, int(megabytes(documents) * 1e6 / part))
        shard = folder / "s" / f"{part:05d}.parquet"
        write_shard(shard, batches([row._replace(id=document_id("bench", row.id)) for row in taken]))
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            found.append({"megabytes": round(megabytes(taken), 1)} | pool.submit(job, shard, tokenizer).result())
    return found


def speeds_between(jobs: list[dict[str, Any]]) -> list[float]:
    """Return the MB/s of each job's additional text compared with the previous job, which excludes the fixed cost."""
    return [
        (more["megabytes"] - less["megabytes"]) / (more["seconds"] - less["seconds"]) for less, more in pairwise(jobs)
    ]


def main() -> int:
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--peer-bytes", type=int, default=8_000_000, help="bytes of text for the comparison with the peer"
    )
    options_parser.add_argument("--vocabulary", type=int, default=250_680)
    options = options_parser.parse_args()
    one_core()
    os.environ["RAYON_NUM_THREADS"] = "1"
    documents = read_documents(options.languages, options.bytes_per_language)
    columns = [batch["text"] for batch in batches(documents, 512)]
    small = [batch["text"] for batch in batches(evenly(documents, options.peer_bytes), 512)]
    small_megabytes = megabytes(evenly(documents, options.peer_bytes))
    with tempfile.TemporaryDirectory() as name:
        write_shard(Path(name) / "all.parquet", batches(documents))
        path = trained(Path(name) / "all.parquet", options.vocabulary, Path(name))
        tokenizer = load_tokenizer(path)
        tokenizer.encode_special_tokens = True
        encoder = compiled_encoder(json.loads(path.read_text()))
        contenders = {
            "ours": Contender(small_megabytes, ours(small, encoder)),
            "tokenizers": Contender(small_megabytes, peer(small, tokenizer)),
            "ours_all": Contender(megabytes(documents), ours(columns, encoder)),
        }
        speeds = in_turn(contenders, options.repeats)
        same = same_ids(ours(small, encoder)(), peer(small, tokenizer)())
        jobs = grown(documents, path, Path(name))
    faster = times_faster(speeds, "ours", "tokenizers")
    first, last = speeds_between(jobs)
    tokens = jobs[-1]["tokens"] - len(documents)
    floors = [
        Floor("ours_all", median(speeds["ours_all"]), FLOOR_MEGABYTES_PER_SECOND),
        Floor("times faster", median(faster), FLOOR_TIMES_FASTER),
        Floor("speed of the job's last texts over its first", last / first, FLOOR_OF_GROWTH),
        Floor(
            "memory of the smallest job over the largest",
            jobs[0]["peak_megabytes"] / jobs[-1]["peak_megabytes"],
            FLOOR_OF_GROWTH,
        ),
    ]
    result = {
        "documents": len(documents),
        "megabytes": round(megabytes(documents), 1),
        "peer_megabytes": round(small_megabytes, 1),
        "vocabulary": tokenizer.get_vocab_size(),
        "bytes_a_token": round(megabytes(documents) * 1e6 / tokens, 2),
        "megabytes_per_second_one_core": {name: spread(values, 1) for name, values in speeds.items()},
        "times_faster": spread(faster, 1),
        "jobs": jobs,
        "job_megabytes_per_second_beyond_the_smaller": [round(first, 1), round(last, 1)],
        "same_ids": same,
    }
    return finish("encode", result, floors, same_counts=same)


if __name__ == "__main__":
    sys.exit(main())
