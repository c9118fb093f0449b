"""Claim: 20 random faults of a cluster neither end a training nor change its result, and nobody types a command.

    python bench/chaos.py > bench/results/chaos.json    # 20 faults, about 30 minutes
    python bench/chaos.py --seed 7 --kinds 6            # one fault of each of 6 kinds

A real SLURM of 4 nodes runs one training (tensor 2 x pipeline 2). Only `bloomery run` is called, every 15 s, as by
cron. Each iteration is made 0.3 s longer, so that a small training lasts as long as the faults. The idle time counts
from the end of an outage, or from the detection of a hang, to the next recorded iteration. The losses and the bytes of
the final checkpoint are compared with those of an undisturbed training on this machine. The benchmark needs root, for a
small file system in memory that one fault fills. One line for each fault appears on stderr.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from _support import machine, report  # noqa: E402
from chaos import SETTINGS, Chaos, chaos_config, differing_files, draw, small_disk  # noqa: E402
from recorded_losses import recorded_losses  # noqa: E402
from slurm_cluster import PREEMPTION, SlurmCluster  # noqa: E402
from slurm_workflow import FOUR_RANKS, FOUR_RANKS_SITE, LONG, copy_untrained  # noqa: E402
from workflow_support import Workflow  # noqa: E402

SEED = 19
LONGEST_IDLE_SECONDS = 60.0
STEP_SECONDS = 0.3
ITERATIONS_PER_FAULT = 100
CHECKPOINT_ITERATIONS = 20
DISK_MEGABYTES = 300


def undisturbed(folder: Path, config: dict[str, Any]) -> Path:
    """Run the workflow without faults on this machine. Return the folder of the run."""
    folder.mkdir()
    workflow = Workflow(folder, {**config, "root": str(folder / "runs")})
    workflow.run("finish_training")
    return workflow.run_folder


def main() -> int:
    """Inject the faults, print the result, and return 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--kinds", type=int, help="draw this many different kinds of faults instead of all 20 faults")
    parser.add_argument("--folder", type=Path, help="new folder for all files, which is kept (default: temporary)")
    options = parser.parse_args()
    faults = draw(options.seed, options.kinds)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    samples = 8 * ITERATIONS_PER_FAULT * len(faults)
    config = {
        **LONG,
        "training": chaos_config({**LONG["training"], "parallel": FOUR_RANKS}, samples, CHECKPOINT_ITERATIONS),
    }
    began = time.monotonic()
    try:
        reference = undisturbed(folder / "undisturbed", config)
        print(f"undisturbed: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        with (
            small_disk(folder / "disk", DISK_MEGABYTES),
            SlurmCluster(folder / "slurm", settings=SETTINGS, partitions=PREEMPTION) as cluster,
        ):
            site = {**FOUR_RANKS_SITE, "training": {**FOUR_RANKS_SITE["training"], "partition": "cheap"}}
            run = {**config, "root": str(folder / "disk/runs")}
            chaos = Chaos(cluster, folder / "run", run, site, options.seed, STEP_SECONDS)
            copy_untrained(reference, chaos.run)
            injected = chaos.run_to_the_end(faults)
            losses = [recorded_losses(reference / "train/logs/metrics.jsonl"), chaos.losses()]
            differing = differing_files(chaos.run, reference)
            segments = chaos.segments()
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    longest, equal = max(each.idle_seconds for each in injected), losses[0] == losses[1]
    result = {
        "seed": options.seed,
        "faults": [asdict(each) for each in injected],
        "longest_idle_seconds": longest,
        "limits": {"idle_seconds": LONGEST_IDLE_SECONDS},
        "segments": segments,
        "iterations": len(losses[0]),
        "losses_equal": equal,
        "differing_checkpoint_files": differing,
        "seconds": round(time.monotonic() - began),
        "machine": machine(),
    }
    return report("chaos", result, passed=equal and not differing and longest < LONGEST_IDLE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
