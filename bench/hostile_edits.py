"""Change one byte of every kind of file in a finished run, and count the changes that `bloomery verify` misses.

    python bench/hostile_edits.py --run runs/sample > bench/results/hostile_edits.json

In a copy of the run, the program changes one random byte of a random file, verifies the run, and restores the byte. It
repeats this `--draws` times for each kind of file. `bloomery verify` must find every change.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _support import machine, report

from bloomery.base.errors import BloomeryError
from bloomery.contracts.paths import RunPaths
from monitoring.verify_run import verify_run

TEXT = (".json", ".jsonl", ".md", ".html")
"""Suffixes of text files. Only a digit of such a file is changed, so that the file can still be parsed."""
KINDS = {
    "published list of files": "published/publish.json",
    "published model": "published/*/model*.safetensors",
    "published logs": "published/*-logs/logs/metrics.jsonl",
    "pointer of a result": "results/*.json",
    "parity": "export/*/parity.json",
    "exported weights": "export/*/*.safetensors",
    "exported configuration": "export/*/config.json",
    "model card": "export/*/README.md",
    "checkpoint manifest": "train/checkpoints/{newest}/manifest.json",
    "checkpoint weights": "train/checkpoints/{newest}/layer_*.pt",
    "optimizer state": "train/checkpoints/{newest}/*optim_states.pt",
    "reference logits": "train/checkpoints/{newest}/reference.safetensors",
    "random state": "train/checkpoints/{newest}/random_rank_*.safetensors",
    "segment": "train/segments/*.json",
    "end of the training": "train/finished.json",
    "section of the configuration": "config/*.json",
    "section of a part": "config/ingest/*/*.json",
    "report": "report/*.html",
    "index": "index/index.json",
    "verdict on the index": "index/verified.json",
    "samples": "index/arrays/*/train/*.npy",
    "blend": "index/arrays/*/blend_*.npy",
    "tokens": "index/token_files/*/*.bin",
    "lengths of documents": "index/token_files/*/*.idx",
    "documents of token files": "index/token_files/*/*.documents.parquet",
    "manifest of token files": "index/token_files/*/*.documents.json",
    "encoded tokens": "index/tokens/*/*.bin",
    "encoded lengths of documents": "index/tokens/*/*.idx",
    "encoded documents of token files": "index/tokens/*/*.documents.parquet",
    "encoded manifest of token files": "index/tokens/*/*.documents.json",
    "tokenizer": "tokenizer/tokenizer.json",
    "special tokens": "tokenizer/special_tokens_map.json",
    "verdict on the tokenizer": "tokenizer/gate.json",
    "counts of pre-tokens": "tokenizer/counts/*/*.parquet",
    "mixture": "corpus/mixture.json",
    "clean shard": "corpus/clean/*/*.parquet",
    "manifest of a clean shard": "corpus/clean/*/*.json",
    "removed documents": "corpus/removed/*/*.parquet",
    "verdicts": "corpus/verdicts/*/*.parquet",
    "measures": "corpus/measures/*/*.parquet",
    "duplicates": "corpus/duplicates/*.parquet",
    "raw shard": "corpus/raw/*/*.parquet",
    "unreadable rows": "corpus/quarantine/*/*.jsonl",
}
"""Kind of file -> pattern of its files in the folder of the run. `{newest}` is the newest checkpoint."""


@dataclass(frozen=True)
class Edit:
    """One changed byte."""

    kind: str
    file: Path
    position: int
    found: bool
    """Whether `bloomery verify` found the change."""


def files_of(run: Path, pattern: str) -> list[Path]:
    """Return the files of a kind that are not empty."""
    checkpoints = sorted(path.name for path in (run / "train/checkpoints").glob("step*"))
    wanted = pattern.replace("{newest}", checkpoints[-1] if checkpoints else "none")
    return sorted(path for path in run.glob(wanted) if path.is_file() and path.stat().st_size)


def hostile_edits(run: Path, draws: int, seed: int) -> Iterator[Edit]:
    """Change one byte `draws` times in each kind of file. Each byte is restored before the next change."""
    draw = random.Random(seed)
    for kind, pattern in KINDS.items():
        for _ in range(draws):
            files = files_of(run, pattern)
            if not files:
                break
            path = draw.choice(files).resolve()
            before = path.read_bytes()
            after, position = _edited(before, draw, text=path.suffix in TEXT)
            path.write_bytes(after)
            try:
                yield Edit(kind, path, position, not _verified(run))
            finally:
                path.write_bytes(before)


def _edited(content: bytes, draw: random.Random, *, text: bool) -> tuple[bytes, int]:
    """Return the content with one changed byte, and the byte's position. In a text, a digit becomes another digit."""
    digits = [place for place, byte in enumerate(content) if byte in b"0123456789"] if text else []
    position = draw.choice(digits) if digits else draw.randrange(len(content))
    others = [byte for byte in (b"0123456789" if digits else range(256)) if byte != content[position]]
    return content[:position] + bytes([draw.choice(others)]) + content[position + 1 :], position


def _verified(run: Path) -> bool:
    try:
        verify_run(RunPaths(run))
    except BloomeryError:
        return False
    return True


def main() -> int:
    """Edit a copy of the run, print the result, and return 1 if a changed byte was missed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    arguments.add_argument("--draws", type=int, default=20, help="number of changes to each kind of file")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / given.run.name
        shutil.copytree(given.run, run, symlinks=True)
        edits = list(hostile_edits(run, given.draws, given.seed))
    missed = [f"{edit.kind}, byte {edit.position} of {edit.file}" for edit in edits if not edit.found]
    kinds = sorted({edit.kind for edit in edits})
    result = {"seed": given.seed, "edits": len(edits), "kinds": kinds, "missed": missed, "machine": machine()}
    return report("hostile_edits", result, passed=not missed)


if __name__ == "__main__":
    sys.exit(main())
