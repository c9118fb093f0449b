"""Run workflows on the SLURM cluster of the tests."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml
from slurm_cluster import SlurmCluster
from workflow_support import ROOT, SNAKEMAKE, TINY, Workflow

SLURM = ["--profile", str(ROOT / "slurm"), "--bloomery-slurm-longest-poll-seconds", "0.5"]
"""Options of Snakemake for the cluster of the tests. The executor looks at the jobs every half second."""
SITE = {
    "account": "lab",
    "jobs": {"partition": "main"},
    "training": {"partition": "main", "ranks_per_node": 1, "max_minutes": 20},
}
"""Site settings with one process per node, so that a training on two ranks takes two nodes."""


def slurm_workflow(
    cluster: SlurmCluster,
    folder: Path,
    config: dict[str, Any],
    *,
    site: dict[str, Any] | None = None,
    **variables: str,
) -> Workflow:
    """Return a workflow on the cluster."""
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(SITE | (site or {})))
    environment = {**cluster.environment, "HF_TOKEN": "", "BLOOMERY_SITE": str(path), **variables}
    return Workflow(folder, copy.deepcopy(config), SNAKEMAKE, SLURM, environment)


LONG = TINY | {
    "name": "long",
    "training": {
        **TINY["training"],
        "train_samples": 2400,
        "parallel": {"pipeline": 2},
        "checkpoint": {"every_iterations": 50},
        "validation": {"every_iterations": 100, "samples": 2},
        "segment": {"margin_minutes": 0.45},
    },
}
"""A run of 300 iterations, which is long enough to be disturbed. A test that needs more time pauses the ranks.

It has two ranks, because every start of a rank loads its libraries, which takes some seconds of a core. The rehearsal
in `test_verbs.py` trains on two nodes with two ranks each.
"""
FOUR_RANKS = {"tensor": 2, "pipeline": 2}
"""Layout of the benchmarks, which train on two nodes with two ranks each."""
FOUR_RANKS_SITE = {**SITE, "training": {**SITE["training"], "ranks_per_node": 2}}
"""Site settings for `FOUR_RANKS`."""
MODEL, LOGS = "tester/long", "tester/long-logs"
"""Repositories on the Hub that a run of `LONG` publishes to."""


def copy_untrained(source: Path, target: Path) -> None:
    """Copy the results of all stages before training from the run's folder `source` to the run's folder `target`."""
    for name in ("config", "corpus", "tokenizer", "index", "report", "results"):
        if (source / name).exists():
            shutil.copytree(source / name, target / name, symlinks=True)
    for name in ("results/export", "results/publish"):
        shutil.rmtree(target / name, ignore_errors=True)
    for name in ("report/training.html", "results/report/training.json", "results/logs.json"):
        (target / name).unlink(missing_ok=True)


def bloomery(environment: Mapping[str, str], folder: Path, *arguments: str, expect: int = 0) -> Any:
    """Run a verb. Return the JSON that it prints, or its stderr if it prints nothing on stdout."""
    command = [sys.executable, "-m", "bloomery.cli", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=dict(environment))
    assert done.returncode == expect, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def end_workflows(folder: Path) -> None:
    """Kill the processes that a test left running below `folder`.

    Workflows of a failed test would continue to submit jobs. Snakemake may also wait forever for a cancelled job whose
    script ended first, because SLURM without control groups no longer finds such a job.
    """
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line, place = process.info["cmdline"] or [], Path(process.info["cwd"] or "/")
        if place.is_relative_to(folder) or (str(folder) in line and "--directory" in line):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def alive(cluster: SlurmCluster, workflow: Workflow) -> list[str]:
    """Return the running and pending jobs of a workflow's folder."""
    lines = cluster.squeue("--noheader", "--format=%i %Z").splitlines()
    return [line.split()[0] for line in lines if line.split()[1] == str(workflow.folder)]


def segments(run_folder: Path) -> list[dict[str, Any]]:
    """Return the records of the chain of segments."""
    folder = run_folder / "train/segments"
    return [json.loads((folder / f"{n}.json").read_text()) for n in range(1, 1 + len(list(folder.glob("*.json"))))]


def training_jobs(cluster: SlurmCluster, folder: Path, state: str) -> list[str]:
    """Return the ids of the training jobs of the workflow in `folder` that have a state of squeue, such as RUNNING."""
    lines = cluster.squeue("--noheader", f"--states={state}", "--format=%i %k %Z").splitlines()
    return [line.split()[0] for line in lines if "rule_train_segment" in line and line.endswith(f" {folder}")]


def training(cluster: SlurmCluster, workflow: Workflow) -> str:
    """Return the id of the running job that trains. The job of the next segment may wait beside it."""
    (job,) = training_jobs(cluster, workflow.folder, "RUNNING")
    return job


def ranks(folder: Path) -> list[psutil.Process]:
    """Return the processes that train the run in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = process.info["cmdline"] or []
        if (
            process.info["cwd"] == str(folder)
            and "training.loop.main" in line
            and "training.processes.torchrun" not in line
        ):
            found.append(process)
    return found


@contextlib.contextmanager
def paused(folder: Path) -> Iterator[None]:
    """Pause the ranks in `folder`, so that the training cannot end inside the block. Continue them afterwards."""
    stopped = ranks(folder)
    assert stopped
    for rank in stopped:
        rank.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for rank in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                rank.send_signal(signal.SIGCONT)


def iterations(workflow: Workflow) -> int:
    metrics = workflow.run_folder / "train/logs/metrics.jsonl"
    return metrics.read_text().count('"loss"') if metrics.exists() else 0
