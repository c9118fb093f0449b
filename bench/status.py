"""Claim: `bloomery status` takes less than 1.5 s for a training of 110,000 iterations in 1,000 segments.

The command reads the times of all iterations, for the goodput. This takes a few microseconds an iteration.

python bench/status.py > bench/results/status.json

The peers are the status of a run of one segment, which is a thousandth as long, and `bloomery --help`. The module
tests/support/fabricated_run.py makes the runs: configuration, segments, a checkpoint's manifest, and metrics.jsonl (40
MB for 110,000 iterations). Each repeat starts all three commands in turn. The first, cold repeat does not count. The
program prints JSON with the median, least and greatest seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _support import report, spread

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from fabricated_run import configuration, make_run, write_checkpoint, write_ended, write_metrics

from bloomery.contracts.segment import SegmentStatus

ITERATIONS = 110_000
SEGMENTS = 1_000
LIMITS = {"seconds": 1.5, "microseconds_per_iteration": 10.0}
BLOOMERY = [sys.executable, "-m", "bloomery.cli"]


def fabricate(root: Path, iterations: int) -> tuple[list[str], int]:
    """Fabricate a run after `iterations`, and return its status command and the bytes of its metrics."""
    config = configuration(train_samples=48 * (ITERATIONS + 1000))
    paths = make_run(root, config)
    segments = max(1, SEGMENTS * iterations // ITERATIONS)
    write_metrics(paths, config, iterations, segments=segments)
    for number in range(1, segments + 1):
        write_ended(paths, number, SegmentStatus.TIME_LIMIT, number * iterations // segments)
    write_checkpoint(paths, 3 * iterations // 4, 10**9)
    return [*BLOOMERY, "status", "--run", str(paths.run)], (paths.logs / "metrics.jsonl").stat().st_size


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        long, long_bytes = fabricate(Path(name) / "long", ITERATIONS)
        short, short_bytes = fabricate(Path(name) / "short", ITERATIONS // 1000)
        commands = {"status, long": long, "status, short": short, "bloomery --help": [*BLOOMERY, "--help"]}
        taken: dict[str, list[float]] = {each: [] for each in commands}
        for repeat in range(options.repeats + 1):
            for each, command in commands.items():
                value = seconds(command)
                if repeat:
                    taken[each].append(value)
    figures = {each: spread(values, 3) for each, values in taken.items()}
    middle = figures["status, long"]["median"]
    per_iteration = round(1e6 * (middle - figures["status, short"]["median"]) / ITERATIONS, 2)
    passed = middle < LIMITS["seconds"] and per_iteration < LIMITS["microseconds_per_iteration"]
    result = {
        "repeats": options.repeats,
        "metrics_bytes": {"long": long_bytes, "short": short_bytes},
        "seconds": figures,
        "microseconds_per_iteration": per_iteration,
        "long_over_help": round(middle / figures["bloomery --help"]["median"], 2),
        "limits": LIMITS,
    }
    return report("status", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
