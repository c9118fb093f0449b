"""Run one training of `bpe_train.py` in its own process: ``python bench/_bpe_runs.py ours|peer COUNTS SIZE FOLDER``.

Both sides read the count table from disk and write tokenizer.json into FOLDER. The program prints the seconds of
processor time and the peak memory.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def peak_bytes() -> int:
    """Return the peak memory of this process (VmHWM), in bytes.

    The peak memory of getrusage is not usable: it is kept across exec, so a child would start with its parent's peak.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


def train_ours(counts: Path, size: int, folder: Path) -> None:
    """Train as `bloomery tokenizer train` does."""
    from bloomery.config.tokens import TokenizerTraining
    from data_prep.tokenizer.find_count_tables import find_tables
    from data_prep.tokenizer.train import train

    train(TokenizerTraining(vocabulary_size=size), find_tables([counts]), None, folder)


def train_peer(counts: Path, size: int, folder: Path) -> None:
    """Train with the peer. It accepts no counts, so it reads each piece, already split, as many times as its count."""
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    from data_prep.tokenizer.vocabulary import SPECIAL_TOKENS, reserved_tokens

    def pieces() -> Iterator[str]:
        with pq.ParquetFile(counts) as file:
            for batch in file.iter_batches(1 << 14, columns=["piece", "count"]):
                for piece, count in zip(batch["piece"].to_pylist(), batch["count"].to_pylist(), strict=True):
                    for _ in range(count):
                        yield piece

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        initial_alphabet=ByteLevel.alphabet(),
        special_tokens=[*SPECIAL_TOKENS, *reserved_tokens(200)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(pieces(), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def main() -> None:
    """Run one training. Without arguments, do nothing, to measure a bare interpreter."""
    if len(sys.argv) > 1:
        side, counts, size, folder = sys.argv[1:]
        {"ours": train_ours, "peer": train_peer}[side](Path(counts), int(size), Path(folder))
    print(json.dumps({"processor_seconds": time.process_time(), "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main()
