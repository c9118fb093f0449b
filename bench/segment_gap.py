"""Claim: with 60 s of queueing, less than 10 s pass between two segments of a training.

    python bench/segment_gap.py > bench/results/segment_gap.json

A real SLURM lets every job wait for at least 60 s after its submission. The launcher of a segment submits the job of
the next segment while it still trains, so that this job has already waited when the segment ends. The gap counts from
the end of a segment's launcher to the start of the next one's. The peer is a job that is submitted after the end of the
segment: it waits for the 60 s. The time from the last iteration of a segment to the first iteration of the next one is
also measured; most of it is the start of Python, torch and DeepSpeed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from _support import machine, report  # noqa: E402
from slurm_cluster import SlurmCluster  # noqa: E402
from slurm_workflow import FOUR_RANKS, FOUR_RANKS_SITE, LONG, copy_untrained, end_workflows, segments, slurm_workflow  # noqa: E402
from workflow_support import Workflow  # noqa: E402

LONGEST_GAP_SECONDS = 10.0
SEGMENT_MINUTES = 1.5
"""Length of a segment, which must be longer than the wait in the queue."""


def main() -> int:
    """Train a few segments, and return 1 if a gap is too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--queue-seconds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gap-") as name:
        folder = Path(name)
        training = {**LONG["training"], "parallel": FOUR_RANKS, "train_samples": 8 * 20_000}
        training["segment"] = {"minutes": SEGMENT_MINUTES, "margin_minutes": 0.45}
        config = {**LONG, "training": training}
        local = Workflow(folder / "local", {**config, "root": str(folder / "local/runs")})
        local.folder.mkdir()
        local.run("index")
        with SlurmCluster(folder / "slurm") as cluster:
            workflow_folder = folder / "cluster"
            workflow_folder.mkdir()
            workflow = slurm_workflow(cluster, workflow_folder, config, site=FOUR_RANKS_SITE)
            copy_untrained(local.run_folder, workflow.run_folder)
            cluster.queue_for(options.queue_seconds)
            try:
                workflow.run(f"runs/long/train/segments/{options.segments}.json")
            finally:
                end_workflows(workflow_folder)
            chain = segments(workflow.run_folder)
        lines = (workflow.run_folder / "train/logs/metrics.jsonl").read_text().splitlines()
        times = {
            record["iteration"]: datetime.fromisoformat(record["time"])
            for record in map(json.loads, lines)
            if "loss" in record
        }
    gaps, idle = [], []
    for before, after in itertools.pairwise(chain):
        ended, started = (datetime.fromisoformat(text) for text in (before["ended"], after["started"]))
        gaps.append((started - ended).total_seconds())
        last = before["iteration"]
        idle.append((times[last + 1] - times[last]).total_seconds())
    result = {
        "queue_seconds": options.queue_seconds,
        "gap_seconds": gaps,
        "seconds_between_iterations": idle,
        "limits": {"gap_seconds": LONGEST_GAP_SECONDS},
        "machine": machine(),
    }
    return report("segment_gap", result, passed=bool(gaps) and max(gaps) < LONGEST_GAP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
