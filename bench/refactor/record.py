"""Record the results of this checkout for `compare.py`: `python bench/refactor/record.py --output DIR`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import adapter

PIECES = ("plans", "jobs", "sbatch", "verdicts", "layouts", "resume", "sample")
"""Modules in the folder of this file, starting with the fastest."""


def main() -> None:
    """Record the requested pieces of results, such as plans or jobs, each in its own JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="Folder to which the JSON files are written.")
    parser.add_argument(
        "--pieces", nargs="+", choices=PIECES, default=PIECES, help="Pieces of results to record. Default: all."
    )
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The hash seed is fixed when a process starts, so restart with the environment of all recordings.
        os.execve(sys.executable, [sys.executable, *sys.argv], adapter.environment())
    options.output.mkdir(parents=True, exist_ok=True)
    output = options.output.resolve()
    for piece in options.pieces:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"refactor-{piece}-") as folder:
            value = importlib.import_module(piece).record(Path(folder).resolve())
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1)
        (output / f"{piece}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{piece}: {len(text) / 1e6:.1f} MB, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
