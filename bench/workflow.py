"""Claim: the sample run takes less than 6 minutes and 4 GiB on two cores, and a rerun without work less than 15 s.

python bench/workflow.py > bench/results/workflow.json

The program runs config/sample.yaml in an empty folder with the local profile, and then runs it again. Memory is the
largest sum of the proportional set sizes (PSS, which counts shared pages once) of Snakemake and all its descendants,
sampled twice a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from _support import ROOT, report, workflow_command

LIMITS = {"seconds": 360.0, "pss_bytes": 4 << 30, "rerun_seconds": 15.0}
SAMPLE_EVERY_SECONDS = 0.5


def pss_bytes(process: psutil.Process) -> int:
    """Return the PSS of a process and all its descendants. Processes that end meanwhile count as 0."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            rollup = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return total


def run(folder: Path) -> tuple[float, int, int]:
    """Run the workflow once, and return its seconds, peak PSS in bytes and exit code."""
    command = workflow_command(folder, ROOT / "config/sample.yaml")
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    watched, peak, done = psutil.Process(process.pid), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_EVERY_SECONDS):
            try:
                peak = max(peak, pss_bytes(watched))
            except psutil.NoSuchProcess:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return seconds, peak, code


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config").symlink_to(ROOT / "config")
        seconds, peak, code = run(folder)
        rerun_seconds, _, rerun_code = run(folder)
    figures = {"seconds": round(seconds, 1), "pss_bytes": peak, "rerun_seconds": round(rerun_seconds, 1)}
    passed = code == rerun_code == 0 and all(figures[name] < limit for name, limit in LIMITS.items())
    result = {
        "cores": len(os.sched_getaffinity(0)),
        **figures,
        "limits": LIMITS,
    }
    return report("workflow", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
