"""Claim: a training that makes progress between its crashes finishes, with the losses of an undisturbed training.

    python bench/crashes.py > bench/results/crashes.json    # 2 x 20 crashes, about 10 minutes

Two tiny trainings of two processes each (data 2, pipeline 2) run segment after segment through `bloomery train
segment`, which starts torchrun. In each of the first segments, SIGKILL ends one process at a random moment after the
segment's first new checkpoint. The number of crashes is far above the configured limits, so a training finishes only if
each new checkpoint resets the counted crashes. One line for each crash appears on stderr.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from _support import machine, report  # noqa: E402
from fabricated_training import make_run, stage  # noqa: E402
from training_launcher import Launcher  # noqa: E402
from waiting import wait_for  # noqa: E402

from bloomery.contracts.checkpoint import newest_manifest  # noqa: E402
from bloomery.contracts.paths import RunPaths  # noqa: E402
from bloomery.contracts.segment import SegmentStatus, read_segment  # noqa: E402

SEED = 18
SHAPES: tuple[dict[str, Any], ...] = ({"data": 2}, {"pipeline": 2})
LIMITS = {"max_crashes": 2, "max_restarts_without_progress": 3}
CHECKPOINT_ITERATIONS, BATCH = 4, 16


def _ranks(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes that train, without torchrun, which started them."""
    return [
        child
        for child in process.children(recursive=True)
        if "training.loop.main" in (line := child.cmdline()) and "training.processes.torchrun" not in line
    ]


def _iteration(paths: RunPaths) -> int:
    newest = newest_manifest(paths.checkpoints)
    return 0 if newest is None else newest.iteration


def crash(launcher: Launcher, number: int, drawn: random.Random) -> dict[str, Any]:
    """Run a segment, kill one of its processes after the first new checkpoint, and return facts about the segment."""
    paths = RunPaths(launcher.run)
    before = _iteration(paths)
    process = launcher.start(number)
    wait_for(lambda: _iteration(paths) > before, 300, process)
    time.sleep(drawn.uniform(0.0, 0.2))
    ranks = _ranks(psutil.Process(process.pid))
    if ranks:
        drawn.choice(ranks).kill()
    talk, _ = process.communicate(timeout=300)
    segment = read_segment(paths.segments / f"{number}.json") if process.returncode == 0 else None
    return {
        "segment": number,
        "killed": bool(ranks),
        "exit_code": process.returncode,
        "status": segment.status.value if segment else talk[-500:],
        "iteration": _iteration(paths),
    }


def chain(folder: Path, shape: dict[str, Any], crashes: int, drawn: random.Random) -> dict[str, Any]:
    """Crash a training `crashes` times, let it finish, and compare its losses with those of an undisturbed training."""
    values: dict[str, Any] = {
        "samples": (crashes + 4) * 5 * CHECKPOINT_ITERATIONS * BATCH,
        "checkpoint": {"every_iterations": CHECKPOINT_ITERATIONS},
        "validation": {"every_iterations": 1000, "samples": 4},
        "segment": LIMITS,
    }
    undisturbed, disturbed = (
        Launcher(folder / name, make_run(folder / name, stage(**values | shape))) for name in ("undisturbed", "crashed")
    )
    undisturbed.segment()
    rows = []
    for number in range(1, crashes + 1):
        rows.append(crash(disturbed, number, drawn))
        print(f"{number}/{crashes} {json.dumps(shape | rows[-1])}", file=sys.stderr, flush=True)
    last = disturbed.segment(crashes + 1)
    paths = RunPaths(undisturbed.run)
    return {
        "shape": shape,
        "iterations": _iteration(paths),
        "crashed_segments": sum(row["status"] == SegmentStatus.CRASHED.value for row in rows),
        "last_status": last["status"],
        "losses_equal": disturbed.losses() == undisturbed.losses(),
        "crashes": rows,
    }


def main() -> int:
    """Run the trainings, print the result, and return 1 if a training did not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=20, help="number of crashes in each training")
    crashes = parser.parse_args().crashes
    drawn, rows = random.Random(SEED), []
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
            rows.append(chain(Path(folder), shape, crashes, drawn))
    passed = all(
        row["crashed_segments"] == crashes and row["last_status"] == "finished" and row["losses_equal"] for row in rows
    )
    return report("crashes", {"seed": SEED, "limits": LIMITS, "trainings": rows, "machine": machine()}, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
