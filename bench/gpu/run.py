"""Run all measurements on one GPU unattended, in pieces of less than 8 minutes.

        python bench/gpu/run.py --output bench/results/gpu            # all pieces, one after another
        python bench/gpu/run.py --output DIR --pieces 1b3             # one piece
        python bench/gpu/run.py --output DIR --shape tiny             # a quick test of the programs, also without a GPU

The results of each piece are written to a JSON file, and a table is printed at the end. The programs need Python 3.11
or newer, torch 2.11 or newer, deepspeed, pydantic, PyYAML, safetensors, and transformers for the peers. They run from a
checkout. The package need not be built or installed, so the exact version of torch in pyproject.toml is not required.

Every variant runs in its own process, so its memory is measured separately and its failure does not affect the others.
Finished measurements are skipped. The same command therefore resumes after an interruption and retries failed variants.
The goal is 50 % MFU for the network `1b3`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PIECE_SECONDS = 450.0
LEAST_SECONDS = 20.0
"""A variant starts only if at least this much of the piece's time is left."""
GOAL_MFU = 0.5

_OURS = [
    ("--attention", "sdpa"),
    ("--attention", "sdpa", "--compile"),
    ("--attention", "flex"),
    ("--attention", "flex", "--compile"),
    ("--attention", "flex", "--compile", "--optimizer", "torch"),
    ("--attention", "flex", "--compile", "--recompute", "selective"),
    ("--attention", "flex", "--compile", "--recompute", "full"),
    ("--positions", "rotary", "--attention", "sdpa", "--compile"),
]
_PEERS = [("--who", "neox"), ("--who", "neox", "--compile"), ("--who", "bloom")]


def _pieces(shape: str | None) -> dict[str, list[list[str]]]:
    """Return the commands of each piece. The shape of the goal (`1b3`) comes first. The variants of each shape are
    divided into two pieces."""
    small = ["--batch", "1", "--heads", "4", "--length", "128", "--head-size", "32"] if shape == "tiny" else []
    pieces = {"attention": [["attention.py", *small]], "dropout": [["dropout.py", *small]]}
    for name in [shape] if shape else ["1b3", "350m", "6b3-slice"]:
        variants = [["step.py", "--shape", name, *options] for options in [*_OURS[:4], *_PEERS[:1]]]
        pieces[name] = variants
        pieces[f"{name}-more"] = [["step.py", "--shape", name, *options] for options in [*_OURS[4:], *_PEERS[1:]]]
    return pieces


def _run(commands: list[list[str]], measured: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the commands for at most PIECE_SECONDS, and return the result or the error of each command.

    `measured` contains earlier results, which are not repeated.
    """
    deadline = time.monotonic() + PIECE_SECONDS
    found = []
    for script, *options in commands:
        left = deadline - time.monotonic()
        said = " ".join([script, *options])
        if said in measured:
            found.append(measured[said])
            continue
        if left < LEAST_SECONDS:
            error = f"skipped: {PIECE_SECONDS:.0f} s, the time limit of a piece, are over"
            found.append({"command": said, "error": error})
            continue
        print(f"{said} ...", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / script), *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left, env=dict(os.environ))
        except subprocess.TimeoutExpired:
            found.append({"command": said, "error": f"did not finish within {left:.0f} s"})
            continue
        if done.returncode:
            found.append({"command": said, "error": _reason(done.stderr) or f"exit code {done.returncode}"})
            continue
        found.append({"command": said, **json.loads(done.stdout.strip().splitlines()[-1])})
    return found


def _reason(said: str) -> str | None:
    """Return the line of a traceback that contains the error. The compiler may write advice after this line."""
    lines = [re.sub(r"^\[rank\d+\]:", "", line).strip() for line in said.splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed|Unsupported)\b", line)]
    return next((line for line in reversed(errors or lines) if line), None)


def _table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return a table with one line for each variant."""
    lines = [f"{'variant':64} {'step s':>8} {'tokens/s':>10} {'TFLOP/s':>8} {'MFU':>7} {'GiB':>6}"]
    for piece in results.values():
        for each in piece:
            name = each["command"].removeprefix("step.py --shape ")
            if "error" in each:
                lines.append(f"{name:64} {each['error'][:160]}")
            elif "step_seconds" in each:
                mfu = f"{100 * each['mfu']:.1f} %" if each["mfu"] is not None else "-"
                memory = f"{each['peak_memory_gib']:.1f}" if each["peak_memory_gib"] is not None else "-"
                lines.append(
                    f"{name:64} {each['step_seconds']['median']:8.3f} {each['tokens_per_second']:10,.0f} "
                    f"{each['model_tflops']:8.1f} {mfu:>7} {memory:>6}"
                )
            else:
                lines.extend(each["lines"])
    return "\n".join(lines)


def main() -> int:
    """Run the pieces, and return 1 if a variant failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for the results: a JSON file for each piece")
    parser.add_argument("--pieces", nargs="+", help="names of the pieces (groups of measurements) to run; default: all")
    parser.add_argument("--shape", help="name of the only network to measure, for example tiny; default: all")
    options = parser.parse_args()
    pieces = _pieces(options.shape)
    if unknown := set(options.pieces or []) - set(pieces):
        parser.error(f"unknown piece {', '.join(sorted(unknown))}; known pieces: {', '.join(pieces)}")
    options.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.pieces or pieces:
        path = options.output / f"{name}.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        measured = {each["command"]: each for each in before if "error" not in each}
        results[name] = _run(pieces[name], measured)
        written = path.with_suffix(".tmp")
        written.write_text(json.dumps(results[name], indent=2) + "\n", encoding="utf-8")
        written.rename(path)
    print(_table(results))
    on_gpu = [each for piece in results.values() for each in piece if each.get("mfu") is not None]
    ours = [each["mfu"] for each in on_gpu if each["shape"] == "1b3" and each["who"] == "ours"]
    if ours:
        print(f"\n1b3: best MFU {100 * max(ours):.1f} %, goal {100 * GOAL_MFU:.0f} %")
    return int(any("error" in each for piece in results.values() for each in piece))


if __name__ == "__main__":
    sys.exit(main())
