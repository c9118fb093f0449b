"""Claims: `bloomery --help` takes less than 0.4 s, and `bloomery plan` of BLOOM-176B less than 1 s.

The peer is an idle interpreter, which runs in turn with the commands.

python bench/startup.py > bench/results/startup.json

Each repeat starts all commands once. The first, cold repeat does not count. The program prints JSON with the median,
least and greatest seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from _support import report, spread

LIMIT_SECONDS = {"bloomery --help": 0.4, "bloomery plan": 1.0}
BLOOM = str(Path(__file__).parents[1] / "config/models/tr11-176b.yaml")
COMMANDS = {
    "bloomery --help": [sys.executable, "-m", "bloomery.cli", "--help"],
    "bloomery plan": [sys.executable, "-m", "bloomery.cli", "plan", BLOOM, "--json"],
    "bloomery train segment --help": [sys.executable, "-m", "bloomery.cli", "train", "segment", "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for repeat in range(options.repeats + 1):
        for name, command in COMMANDS.items():
            value = seconds(command)
            if repeat:
                taken[name].append(value)
    figures = {name: spread(values, 3) for name, values in taken.items()}
    passed = all(figures[name]["median"] < limit for name, limit in LIMIT_SECONDS.items())
    result = {
        "repeats": options.repeats,
        "seconds": figures,
        "limit_seconds": LIMIT_SECONDS,
    }
    return report("startup", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
