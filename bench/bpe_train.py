"""Claim: training byte-level BPE from counts is twice as fast as Hugging Face's trainer, with a third of its memory.

    python bench/bpe_train.py > bench/results/bpe_train.json

Both sides train a tokenizer of 250,680 entries, each in its own process, and must produce the same merges. The input is
a count table of 8 M different generated pieces of about 9 bytes (`_pieces.py`). Ours is `bloomery tokenizer train`. The
peer accepts only text, so it reads each piece, already split, as many times as its count. A count is about the
logarithm of a Zipf-distributed number, so a piece is repeated only 2.5 times on average. The time to read the repeated
pieces is not compared: the training time of a side is the time of a whole training minus the time of a training without
merges. Memory is the peak of the whole process minus that of an idle interpreter. With few pieces, the imported
libraries use most of the memory, and the claim about memory does not hold. The peer may use all cores. Ours uses one
core, and also runs on a sixteenth and a fourth of the pieces. The program prints JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from _pieces import write_pieces
from _support import Floor, finish

from bloomery.config.tokens import smallest_vocabulary

RUNS = Path(__file__).with_name("_bpe_runs.py")
TIMES_FASTER, TIMES_SMALLER = 2.0, 3.0


def run(*arguments: object) -> dict[str, Any]:
    """Run one process, and return what it prints and its wall-clock seconds."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, str(RUNS), *map(str, arguments)], stdout=subprocess.PIPE, check=True)
    return {"seconds": time.perf_counter() - start, **json.loads(done.stdout)}


def measured(side: str, counts: Path, size: int, folder: Path) -> dict[str, Any]:
    """Measure a training with merges and one without."""
    bare = run(side, counts, smallest_vocabulary(200), folder / "bare")
    full = run(side, counts, size, folder / side)
    idle = run()["peak_bytes"]
    return {
        "seconds": round(full["seconds"], 1),
        "seconds_training_only": round(full["seconds"] - bare["seconds"], 1),
        "processor_seconds": round(full["processor_seconds"], 1),
        "processor_seconds_training_only": round(full["processor_seconds"] - bare["processor_seconds"], 1),
        "peak_megabytes": round((full["peak_bytes"] - idle) / 1e6),
        "peak_bytes_a_piece": round((full["peak_bytes"] - idle) / pq.read_metadata(counts).num_rows),
    }


def merges_of(folder: Path) -> Any:
    return json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["merges"]


def main() -> int:
    """Print the JSON result. Return 1 if a figure is below its required minimum or the merges differ, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=8_000_000)
    parser.add_argument("--vocab-size", type=int, default=250_680)
    options = parser.parse_args()
    scaling = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pieces in (options.pieces // 16, options.pieces // 4, options.pieces):
            counts = folder / f"{pieces}.parquet"
            write_pieces(counts, pieces)
            scaling[pieces] = measured("ours", counts, options.vocab_size, folder)
        peer = measured("peer", counts, options.vocab_size, folder)
        merges = merges_of(folder / "ours")
        same = merges == merges_of(folder / "peer")
        lengths = [len(piece) for piece in pq.read_table(counts)["piece"].cast("large_binary").to_pylist()]
    ours = scaling[options.pieces]
    result = {
        "pieces": options.pieces,
        "bytes_a_piece": round(sum(lengths) / len(lengths), 2),
        "merges": len(merges),
        "same_merges": same,
        "ours": ours,
        "peer": {"name": "tokenizers BpeTrainer", **peer},
        "times_faster_whole": round(peer["seconds"] / ours["seconds"], 1),
        "scaling": {str(pieces): figures for pieces, figures in scaling.items()},
    }
    floors = [
        Floor(
            "times faster, training only", peer["seconds_training_only"] / ours["seconds_training_only"], TIMES_FASTER
        ),
        Floor("times less memory, whole process", peer["peak_megabytes"] / ours["peak_megabytes"], TIMES_SMALLER),
    ]
    return finish("bpe_train", result, floors, same_counts=same)


if __name__ == "__main__":
    sys.exit(main())
