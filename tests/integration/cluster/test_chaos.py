"""Test a draw of 6 random faults in one training. `bench/chaos.py` injects all 20 and measures the idle times."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from chaos import SETTINGS, Chaos, chaos_config, differing_files, draw
from slurm_cluster import PREEMPTION, SlurmCluster
from slurm_workflow import LONG, SITE, copy_untrained
from workflow_support import Workflow

pytestmark = pytest.mark.cluster

SEED = 7
"""Seed of the draw: a hung rank, a drained node, a killed launcher, a killed workflow, a dead node, a dead watcher."""
STEP_SECONDS = 1.0
"""Additional time of each iteration, so that the 300 iterations of the training last as long as the faults."""


def test_random_faults_change_neither_the_losses_nor_the_last_checkpoint(undisturbed: Workflow, tmp_path: Path) -> None:
    training = chaos_config(LONG["training"], LONG["training"]["train_samples"], checkpoint_iterations=10)
    config = {**LONG, "root": str(tmp_path / "run/runs"), "training": training}
    with SlurmCluster(tmp_path / "slurm", settings=SETTINGS, partitions=PREEMPTION) as cluster:
        chaos = Chaos(cluster, tmp_path / "run", config, SITE, SEED, STEP_SECONDS)
        copy_untrained(undisturbed.run_folder, chaos.run)
        # No command is typed: only the command of cron starts the workflow.
        injected = chaos.run_to_the_end(draw(SEED, 6))
    segments = chaos.segments()
    assert len(injected) == 6
    assert segments[-1]["status"] == "finished"
    # A hung rank, a killed rank of the drained node, a killed launcher and a dead node each end a segment.
    assert len([each for each in segments if each["status"] == "crashed"]) >= 4, segments
    assert_hang_was_recorded(chaos.run, segments[0])
    assert chaos.losses() == undisturbed.losses()
    # The manifest contains the configuration, in which the interval of checkpoints and limits of time differ.
    assert differing_files(chaos.run, undisturbed.run_folder) == ["manifest.json"]


def assert_hang_was_recorded(run: Path, segment: dict[str, Any]) -> None:
    """Assert that a segment names the rank that hung, and that the stacks of the other rank were written."""
    assert segment["fault"] == "hang"
    rank = re.search(r"the training hung .*: rank (\d) on (\S+) made no progress", segment["message"])
    assert rank is not None, segment
    assert rank[2] == os.uname().nodename
    folder = run / "train/logs/hangs/1-1"
    assert f"rank {rank[1]}: process" in (folder / "no-stacks.txt").read_text()
    (other,) = {*"01"} - {rank[1]}
    assert "training/loop/" in (folder / f"{other}.txt").read_text()
