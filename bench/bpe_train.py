"""Claim: BPE from counted pieces is faster and smaller than Hugging Face's trainer, with the same merges.

    python bench/bpe_train.py corpus/*.jsonl.zst --merges 100000 > bench/results/bpe_train.json

Both train on the same pieces with the same counts, one thread each, every run in a process of its own. The peer cannot
start from counts but only from text, and counting text takes it many times longer than training, so that a difference
of two whole runs says nothing. Therefore each different piece is fed to it, ready split, 1 + floor(log2(count)) times,
ours gets these counts too, and the peer's training time is a run less a run without merges (both are printed; the
smallest of ``--repeats``). Files are JSON lines with a "text". ``--synthetic N`` adds a run of ours alone on N made-up
pieces, for the scale of the real corpus: stems and endings of real pieces, Zipf-like counts. Prints JSON.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from data_prep.tokenizer import _bpe

MIN_FREQUENCY = 2
MAX_TOKEN_BYTES = 128


def byte_characters() -> list[str]:
    """The character that byte-level BPE shows for each byte: GPT-2's ``bytes_to_unicode``."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


def read_texts(paths: list[Path]) -> list[str]:
    texts = []
    for path in paths:
        with zstandard.open(path, "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    return texts


def count_pieces(texts: list[str]) -> Counter[bytes]:
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    splitter = ByteLevel(add_prefix_space=False)
    shown: Counter[str] = Counter()
    for text in texts:
        shown.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    return Counter({bytes(byte_of[c] for c in piece): count for piece, count in shown.items()})


def memory_bytes(field: str) -> int:
    """VmRSS or VmHWM of this process. Not getrusage: its maximum outlives exec, so a child would start at ours."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def measured(action: Callable[[], Any]) -> tuple[Any, float, int]:
    """The action's result, its seconds, and its peak of memory above what the process held before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start = memory_bytes("VmRSS"), time.perf_counter()
    result = action()
    return result, time.perf_counter() - start, memory_bytes("VmHWM") - before


def train_ours(pieces: bytes, lengths: Any, counts: Any, merges: int) -> dict[str, Any]:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    order = np.argsort(np.argsort(byte_characters())).astype(np.uint8)
    made, seconds, added = measured(
        lambda: _bpe.train(pieces, offsets, counts, order, merges, MIN_FREQUENCY, MAX_TOKEN_BYTES)
    )
    return {"seconds": seconds, "added_bytes": added, "merges": made.tolist()}


def train_peer(pieces: list[bytes], counts: Any, merges: int) -> dict[str, Any]:
    characters = byte_characters()
    shown = ["".join(characters[byte] for byte in piece) for piece in pieces]
    tokenizer = Tokenizer(BPE())  # no pre-tokenizer: each sequence is one piece
    trainer = BpeTrainer(
        vocab_size=256 + merges,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    fed = (piece for piece, count in zip(shown, counts.tolist(), strict=True) for _ in range(count))
    _, seconds, added = measured(lambda: tokenizer.train_from_iterator(fed, trainer))
    model = json.loads(tokenizer.to_str())["model"]
    ids = [[model["vocab"][left], model["vocab"][right]] for left, right in model["merges"]]
    return {"seconds": seconds, "added_bytes": added, "merges": ids}


def alone(repeats: int, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The fastest of some runs, each in a fresh process, so that its memory is its own."""
    runs = []
    for _ in range(repeats):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            runs.append(pool.submit(function, *arguments).result())
    return min(runs, key=lambda run: float(run["seconds"]))


def synthetic(pieces: list[bytes], count: int) -> tuple[bytes, Any, Any]:
    generator = np.random.default_rng(0)
    stems = generator.integers(0, len(pieces), count)
    endings = generator.integers(0, len(pieces), count)
    made = [pieces[a][:12] + pieces[b][-4:].strip() for a, b in zip(stems.tolist(), endings.tolist(), strict=True)]
    counts = np.minimum(generator.zipf(1.6, count), 2**40) + 1
    return b"".join(made), np.array([len(piece) for piece in made]), counts.astype(np.int64)


def figures(run: dict[str, Any], pieces: int) -> dict[str, Any]:
    return {
        "seconds": round(run["seconds"], 2),
        "added_megabytes": round(run["added_bytes"] / 1e6, 1),
        "added_bytes_a_piece": round(run["added_bytes"] / pieces, 1),
        "merges": len(run["merges"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--merges", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--synthetic", type=int, default=0)
    options = parser.parse_args()
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    texts = read_texts(options.files)
    counted = count_pieces(texts)
    pieces = list(counted)
    lengths = np.array([len(piece) for piece in pieces])
    counts = np.array([count.bit_length() for count in counted.values()], np.int64)  # 1 + floor(log2(count))
    text_bytes = sum(len(text.encode()) for text in texts)
    del texts, counted

    ours = alone(options.repeats, train_ours, b"".join(pieces), lengths, counts, options.merges)
    peer_counting = alone(options.repeats, train_peer, pieces, counts, 0)
    peer = alone(options.repeats, train_peer, pieces, counts, options.merges)
    peer_seconds = peer["seconds"] - peer_counting["seconds"]
    same = ours["merges"] == peer["merges"]
    result: dict[str, Any] = {
        "benchmark": "bpe_train",
        "text_megabytes": round(text_bytes / 1e6, 1),
        "pieces": len(pieces),
        "piece_bytes": int(lengths.sum()),
        "ours": figures(ours, len(pieces)),
        "peer": {
            "name": "tokenizers BpeTrainer, one thread",
            "seconds_without_merges": round(peer_counting["seconds"], 2),
            "seconds_training_only": round(peer_seconds, 2),
            **figures(peer, len(pieces)),
        },
        "times_faster_training_only": round(peer_seconds / ours["seconds"], 1),
        "same_merges": same,
    }
    if options.synthetic:
        data, sizes, weights = synthetic(pieces, options.synthetic)
        run = alone(1, train_ours, data, sizes, weights, 250_000)
        result["synthetic"] = {"pieces": options.synthetic, "piece_bytes": len(data), **figures(run, options.synthetic)}
    result["passed"] = same and ours["seconds"] <= peer_seconds
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
