"""Claim: on one core, the text kernel computes measures of 25 MB of text per second, and MinHash keys of 10 MB.

    python bench/text_kernel.py corpus/*.jsonl.zst > bench/results/text_kernel.json

The peer is the plain Python reference of the kernel's tests. Both run in this process on one thread. The peer processes
only the first ``--peer-bytes`` of every file. Its values, except ``terminal_punctuation_ratio``, must equal the
kernel's. Files are JSON lines with the key "text". A file name up to the first dot is the language of the file.
``--unspaced`` lists the languages that are written without spaces. The program prints JSON with MB/s (10^6 bytes of
UTF-8).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from _support import report

from data_prep.corpus import _text

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from text_kernel_reference import FLAGGED, STOP, batch, reference

FLOORS_MB_PER_SECOND = {"measure": 25.0, "minhash_14x8": 10.0}
REPEATS = 3


def read_texts(path: Path) -> list[str]:
    opened = zstandard.open(path, "rt", encoding="utf-8") if path.suffix == ".zst" else path.open(encoding="utf-8")
    with opened as lines:
        return [json.loads(line)["text"] for line in lines]


def best_seconds(action: Callable[[], Any], repeats: int = REPEATS) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def first_bytes(texts: list[str], limit: int) -> list[str]:
    kept: list[str] = []
    total = 0
    for text in texts:
        total += len(text.encode())
        if kept and total > limit:
            break
        kept.append(text)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--unspaced", nargs="*", default=["zh", "zhs", "zht", "ja", "th"])
    parser.add_argument("--peer-bytes", type=int, default=20_000)
    options = parser.parse_args()

    texts: list[str] = []
    unspaced: list[int] = []
    peer: list[tuple[int, bool]] = []
    for path in options.files:
        flag = path.name.split(".")[0] in options.unspaced
        found = read_texts(path)
        peer += [(len(texts) + i, flag) for i in range(len(first_bytes(found, options.peer_bytes)))]
        texts += found
        unspaced += [flag] * len(found)
    data, offsets = batch(texts)
    flags = np.array(unspaced, np.uint8)
    megabytes = len(data) / 1e6

    def minhash() -> Any:
        return _text.minhash(data, offsets, flags, 5, 5, 14, 8, 0)

    lists = _text.WordLists([(STOP, FLAGGED, flag) for flag in (False, True)])
    numbers = flags.astype(np.int32)

    def measure() -> Any:
        return _text.measure(data, offsets, flags, lists, numbers)

    measured = measure()
    start = time.perf_counter()
    expected = [reference(texts[i], flag) for i, flag in peer]
    peer_seconds = time.perf_counter() - start
    different = sum(
        bool(measured[name][i] != value)
        for (i, _), measures in zip(peer, expected, strict=True)
        for name, value in measures.items()
        if name != "terminal_punctuation_ratio"  # the reference supports only the most common sentence marks
    )
    peer_megabytes = sum(len(texts[i].encode()) for i, _ in peer) / 1e6
    speeds = {
        "measure": megabytes / best_seconds(measure),
        "minhash_14x8": megabytes / best_seconds(minhash),
        "shingles": megabytes / best_seconds(lambda: _text.shingles(data, offsets, flags, 5, 5)),
    }
    peer_speed = peer_megabytes / peer_seconds
    passed = different == 0 and all(speeds[name] >= floor for name, floor in FLOORS_MB_PER_SECOND.items())
    result = {
        "documents": len(texts),
        "megabytes": round(megabytes, 1),
        "languages": len(options.files),
        "megabytes_per_second_one_core": {name: round(speed, 1) for name, speed in speeds.items()},
        "floors_megabytes_per_second": FLOORS_MB_PER_SECOND,
        "peer": {
            "name": "plain Python reference, measure",
            "megabytes": round(peer_megabytes, 2),
            "megabytes_per_second": round(peer_speed, 3),
            "times_faster": round(speeds["measure"] / peer_speed, 1),
            "documents_compared": len(peer),
            "values_different": different,
        },
    }
    return report("text_kernel", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
