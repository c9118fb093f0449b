"""Workflows that run on the tests' SLURM cluster."""

from __future__ import annotations

import contextlib
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml
from slurm_cluster import SlurmCluster
from workflow_support import ROOT, SNAKEFILE, SNAKEMAKE, TINY, Workflow

FAST = [sys.executable, str(ROOT / "tests/support/snakemake_fast.py"), *SNAKEFILE]
SLURM = ["--profile", str(ROOT / "slurm"), "--slurm-init-seconds-before-status-checks", "1"]
SITE = {
    "account": "lab",
    "jobs": {"partition": "main"},
    "training": {"partition": "main", "ranks_per_node": 2, "max_minutes": 20},
}
"""Two processes a node: a world of four takes two nodes."""


def slurm_workflow(
    cluster: SlurmCluster,
    folder: Path,
    config: dict[str, Any],
    *,
    site: dict[str, Any] | None = None,
    stock: bool = False,
    **variables: str,
) -> Workflow:
    """A workflow on the cluster; `stock`: with the polling of the executor as it is."""
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(SITE | (site or {})))
    environment = {**cluster.environment, "HF_TOKEN": "", "BLOOMERY_SITE": str(path), **variables}
    return Workflow(folder, copy.deepcopy(config), SNAKEMAKE if stock else FAST, SLURM, environment)


LONG = TINY | {
    "name": "long",
    "training": {
        **TINY["training"],
        "train_samples": 4800,
        "parallel": {"tensor": 2, "pipeline": 2},
        "checkpoint": {"every_iterations": 50},
        "validation": {"every_iterations": 200, "samples": 2},
        "segment": {"margin_minutes": 0.45},
    },
}
"""Long enough to be disturbed: its training takes most of a minute."""


def bloomery(environment: Mapping[str, str], folder: Path, *arguments: str, expect: int = 0) -> Any:
    """JSON that a verb of ours prints, or what it says when it prints nothing."""
    command = [sys.executable, "-m", "bloomery.cli", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=dict(environment))
    assert done.returncode == expect, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def end_workflows(folder: Path) -> None:
    """Kill what a test left running below `folder`.

    Workflows of a failed test would go on submitting jobs. And of a job that was cancelled Snakemake may wait for ever,
    where its script ended first: without control groups SLURM does not find it any more.
    """
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line, place = process.info["cmdline"] or [], Path(process.info["cwd"] or "/")
        if place.is_relative_to(folder) or (str(folder) in line and "--directory" in line):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def alive(cluster: SlurmCluster, workflow: Workflow) -> list[str]:
    """Jobs of a workflow's folder that run or wait."""
    lines = cluster.squeue("--noheader", "--format=%i %Z").splitlines()
    return [line.split()[0] for line in lines if line.split()[1] == str(workflow.folder)]


def wait_for(condition: Callable[[], bool], seconds: float = 1200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def iterations(workflow: Workflow) -> int:
    metrics = workflow.run_folder / "train/logs/metrics.jsonl"
    return metrics.read_text().count('"loss"') if metrics.exists() else 0
