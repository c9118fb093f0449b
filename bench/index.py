"""Claim: `index build` handles 500 M documents in minutes and bounded memory; measured on synthetic documents.

    python bench/index.py --documents 20000000 --samples 10000000 > bench/results/index.json

Makes sidecars and `.idx` files as `index encode` does (the `.bin` files are sparse: the build does not read them), runs
the real build in a process of its own and prints JSON. Lengths are log-normal with ROOTS' mean of
683 tokens a document (341.6 B tokens, 500 M documents); languages are Zipf-like, as a corpus is.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bloomery.base.atomic import write_json, write_text
from bloomery.base.digest import digest_file
from bloomery.base.progress import track
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import SIDECAR_SCHEMA, sidecar_path, write_idx
from bloomery.contracts.shard import write_table
from data_prep.index.build import build_index
from data_prep.tokenizer.pre_tokenizer import BLOOM_PATTERN
from data_prep.tokenizer.vocabulary import build_tokenizer

LANGUAGES = 46
MEAN_TOKENS = 683
LARGEST = {"documents": 500_000_000, "samples": 166_800_000}


def hex_ids(rng: np.random.Generator, count: int) -> pa.Array:
    """`count` random ids of 32 hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    text = digits[rng.integers(0, 16, size=count * 32, dtype=np.uint8)]
    offsets = np.arange(count + 1, dtype=np.int32) * 32
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def write_part(prefix: Path, documents: int, tokenizer_digest: str, rng: np.random.Generator) -> None:
    sigma = 1.2
    tokens = rng.lognormal(np.log(MEAN_TOKENS) - sigma**2 / 2, sigma, documents).astype(np.int32) + 1
    shares = 1 / np.arange(1, LANGUAGES + 1)
    codes = rng.choice(LANGUAGES, size=documents, p=shares / shares.sum()).astype(np.int32)
    names = pa.array([f"l{code:02d}" for code in range(LANGUAGES)])
    ends = np.cumsum(tokens, dtype=np.int64)
    columns = [
        np.arange(documents, dtype=np.int64),
        hex_ids(rng, documents),
        pa.repeat("s", documents),
        pa.DictionaryArray.from_arrays(pa.array(codes), names).cast(pa.string()),
        ends - tokens,
        tokens.astype(np.int64),
    ]
    path = sidecar_path(prefix)
    counts = {"tokens": int(ends[-1]), "bin_digest": ""}
    table = pa.table(columns, schema=SIDECAR_SCHEMA)
    write_table(path, table, kind="token_documents", inputs={}, parameters=tokenizer_digest, counts=counts)
    with prefix.with_name(prefix.name + ".bin").open("wb") as handle:
        handle.truncate(2 * int(ends[-1]))
    write_idx(prefix.with_name(prefix.name + ".idx"), tokens, np.dtype("<u2"))


def measured_build(folder: Path, parts: list[str], samples: int) -> None:
    """Build, and leave seconds and peak resident bytes in `measured.json`."""
    stage = IndexStage(
        sequence_length=2048, train_samples=samples, validation_samples=64, validation_share=0.01, seed=1
    )
    started = time.perf_counter()
    index = folder / "index"
    build_index(stage, index, parts, folder / "mixture.json", folder / "tokenizer.json", index / "index.json")
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    write_json(folder / "measured.json", {"seconds": round(seconds, 1), "peak_rss_bytes": peak})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000_000)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "tokenizer.json", build_tokenizer(np.empty((0, 2), np.int32), 0, BLOOM_PATTERN).to_str())
        digest = digest_file(folder / "tokenizer.json")
        parts = [f"s/{number:05d}" for number in range(arguments.files)]
        for number, part in enumerate(track(parts, "synthetic token files", len(parts), "files")):
            prefix = folder / "index/tokens" / part
            prefix.parent.mkdir(parents=True, exist_ok=True)
            write_part(prefix, arguments.documents // arguments.files, digest, np.random.default_rng(number))
        weights = {f"l{code:02d}": {"weight": float((1 / (code + 1)) ** 0.9)} for code in range(LANGUAGES)}
        write_json(folder / "mixture.json", {"languages": weights})
        process = multiprocessing.get_context("spawn").Process(
            target=measured_build, args=(folder, parts, arguments.samples)
        )
        process.start()
        process.join()
        measured = json.loads((folder / "measured.json").read_text())
    seconds = measured["seconds"]
    result = {
        "documents": arguments.documents,
        "samples": arguments.samples,
        **measured,
        "seconds_at_largest_by_documents": round(seconds * LARGEST["documents"] / arguments.documents),
        "largest": LARGEST,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
