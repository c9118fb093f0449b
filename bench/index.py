"""Claim: building the index for 166.8 M samples of 500 M documents takes less than 60 s and 8 GB of memory.

    python bench/index.py FOLDER > bench/results/index.json
    python bench/index.py FOLDER --documents 10000000 --samples 3336000 --fractions 1

The program first writes token files into FOLDER (about 20 GB at full size, removed at the end). The `.idx` files are
real. The `.bin` files are sparse, and unused columns of the sidecars are empty, because the build does not read them.
Lengths are log-normal with ROOTS' mean of 683 tokens a document (341.6 B tokens, 500 M documents). The 46 languages
have Zipf-like shares.

Then the real build runs in its own process on a hundredth, a tenth and all of the files, after the files have been
dropped from the page cache. The exit code is 1 if a limit is exceeded. Below full size, the time limit is 5 s plus a
time that is proportional to the size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _support import machine, report

from bloomery.base.atomic import read_json, write_json, write_text
from bloomery.base.digest import digest_file
from bloomery.base.progress import track
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import write_idx
from data_prep.formats.shard import write_table
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.index.build_index import build_index

LANGUAGES = 46
MEAN_TOKENS = 683
SEQUENCE_LENGTH = 2048
DOCUMENTS, SAMPLES = 500_000_000, 166_800_000
LIMIT_SECONDS, LIMIT_BYTES = 60.0, 8_000_000_000
SMALL_SECONDS = 5.0
FILES = 100


def write_part(prefix: Path, documents: int, tokenizer_digest: str, rng: np.random.Generator) -> None:
    sigma = 1.2
    tokens = rng.lognormal(np.log(MEAN_TOKENS) - sigma**2 / 2, sigma, documents).astype(np.int32) + 1
    shares = 1 / np.arange(1, LANGUAGES + 1)
    codes = rng.choice(LANGUAGES, size=documents, p=shares / shares.sum()).astype(np.int32)
    names = pa.array([f"l{code:02d}" for code in range(LANGUAGES)])
    nothing = np.zeros(documents, dtype=np.int64)
    columns = {
        "id": pa.repeat("", documents),
        "source": pa.repeat("s", documents),
        "language": pa.DictionaryArray.from_arrays(pa.array(codes), names).cast(pa.string()),
        "shard": pa.repeat("", documents),
        "row": nothing,
        "first_token": nothing,
        "tokens": nothing,
        "split_key": rng.integers(0, 1 << 64, size=documents, dtype=np.uint64),
    }
    whole = int(tokens.sum(dtype=np.int64))
    counts = {"tokens": whole, "bin_digest": "", "idx_digest": ""}
    table = pa.table(columns, schema=SIDECAR_SCHEMA)
    write_table(
        sidecar_path(prefix), table, kind="token_documents", inputs={}, parameters=tokenizer_digest, counts=counts
    )
    with prefix.with_name(prefix.name + ".bin").open("wb") as handle:
        handle.truncate(2 * whole)
    write_idx(prefix.with_name(prefix.name + ".idx"), tokens, np.dtype("<u2"))


def forget(folder: Path) -> None:
    """Ask the kernel to drop the files from the page cache, so that they are read from the disk."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def peak_bytes() -> int:
    """Return the peak resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measured_build(folder: Path, parts: list[str], samples: int) -> None:
    """Build the index, and write seconds and peak bytes to `measured.json`."""
    stage = IndexStage(
        sequence_length=SEQUENCE_LENGTH, train_samples=samples, validation_samples=64, validation_share=0.01, seed=1
    )
    started, worked = time.perf_counter(), time.process_time()
    index = folder / "index"
    build_index(stage, index, parts, folder / "mixture.json", folder / "tokenizer.json", index / "index.json")
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    arrays = sum(path.stat().st_size for path in (index / "arrays").rglob("*.npy"))
    write_json(
        folder / "measured.json",
        {
            "seconds": round(seconds, 1),
            "processor_seconds": round(processor, 1),
            "peak_rss_bytes": peak_bytes(),
            "array_bytes": arrays,
        },
    )


def build(folder: Path, parts: list[str], documents: int, samples: int) -> dict[str, float]:
    """Build the index of `parts` in a new process, and return the measured facts."""
    forget(folder)
    process = multiprocessing.get_context("spawn").Process(target=measured_build, args=(folder, parts, samples))
    process.start()
    process.join()
    if process.exitcode != 0:
        sys.exit("the build failed")
    return {"documents": documents, "samples": samples, **read_json(folder / "measured.json")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for temporary files, with 25 GB of free space")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument(
        "--fractions",
        type=float,
        nargs="+",
        default=[0.01, 0.1, 1.0],
        help="fractions of the token files, for each of which an index is built",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        # The build reads only the tokenizer's size and its end-of-document token.
        write_text(folder / "tokenizer.json", tokenizer())
        write_json(folder / "tokenizer_config.json", {"eos_token": "</s>"})
        digest = digest_file(folder / "tokenizer.json")
        parts = [f"s/{number:05d}" for number in range(FILES)]
        (folder / "index/tokens/s").mkdir(parents=True)
        for number, part in enumerate(track(parts, "synthetic token files", len(parts), "files")):
            prefix = folder / "index/tokens" / part
            write_part(prefix, arguments.documents // FILES, digest, np.random.default_rng(number))
        weights = {f"l{code:02d}": {"weight": float((1 / (code + 1)) ** 0.9)} for code in range(LANGUAGES)}
        write_json(folder / "mixture.json", {"languages": weights})
        runs = []
        for fraction in arguments.fractions:
            files = max(1, round(fraction * FILES))
            documents = files * (arguments.documents // FILES)
            runs.append(build(folder, parts[:files], documents, round(fraction * arguments.samples)))
    finally:
        shutil.rmtree(folder)
    for run in runs:
        share = run["documents"] / DOCUMENTS
        limit = LIMIT_SECONDS * share + (0.0 if share >= 1 else SMALL_SECONDS)
        run["limit_seconds"], run["limit_bytes"] = limit, LIMIT_BYTES
        run["held"] = run["seconds"] < limit and run["peak_rss_bytes"] < LIMIT_BYTES
    passed = all(run["held"] for run in runs)
    return report("index", {"runs": runs, "machine": machine()}, passed=passed)


def tokenizer() -> str:
    """Return the JSON of a tokenizer that has only special tokens."""
    from tokenizers import Tokenizer, models

    return str(Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3}, "<unk>")).to_str())


if __name__ == "__main__":
    sys.exit(main())
