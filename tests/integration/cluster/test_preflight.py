"""Test the preflight on a cluster: missing GPUs end a training, and the next segment excludes a node that failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from slurm_workflow import SITE, bloomery, segments
from workflow_support import ROOT, Workflow

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import preflight_path, read_preflight

pytestmark = pytest.mark.cluster

FAULT = """
import os
from pathlib import Path

host, marker = os.environ.get("SLURMD_NODENAME"), Path({marker!r})
if os.environ.get("SLURM_NODEID") == "1" and not marker.exists():
    marker.write_text(host)
if host and marker.exists() and marker.read_text() == host:
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
"""
"""Code of every Python process. On the second node of the first job, SLURM seems to have allocated GPUs."""


def test_missing_gpus_end_a_training_and_a_node_that_lost_its_gpus_is_excluded(
    cluster: SlurmCluster, untrained: Callable[..., Workflow], tmp_path: Path
) -> None:
    # The cluster allocates GPUs that do not exist, on every node.
    wrong = untrained(site={"training": {**SITE["training"], "gpus_per_node": 1}})
    paths = RunPaths(wrong.run_folder)
    process = wrong.start("finish_training")
    talk, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    log = (wrong.run_folder / "logs/train_segment/1.log").read_text()
    assert "this process was given 1 GPU (training.gpus_per_node of the site is 1), but torch" in log, talk
    (attempt,) = (paths.segments / "history").iterdir()
    assert json.loads(attempt.read_text())["status"] == "failed"
    assert not paths.excluded_nodes.exists()
    attempt.unlink()

    (tmp_path / "python").mkdir()
    (tmp_path / "python/sitecustomize.py").write_text(FAULT.format(marker=str(tmp_path / "faulty")))
    workflow = untrained(PYTHONPATH=f"{tmp_path / 'python'}:{ROOT}")
    workflow.run("finish_training")
    faulty = (tmp_path / "faulty").read_text()
    first, second = segments(workflow.run_folder)
    assert (first["status"], first["fault"], second["status"]) == ("crashed", "preflight", "finished")
    assert first["first_failure"]["host"] == faulty
    (node,) = bloomery(workflow.environment, tmp_path, "nodes", "list", "--run", "runs/long")
    assert (node["host"], node["by"]) == (faulty, "preflight")
    after = read_preflight(preflight_path(paths.preflight, 2))
    assert len({state.host for state in after.ranks}) == 2
    assert faulty not in {state.host for state in after.ranks}
    assert not [problem for problem in after.problems if problem.ends_segment]
    jobs = cluster.run("scontrol", "show", "job", "--oneliner").stdout.splitlines()
    training = [job for job in jobs if f"WorkDir={tmp_path}" in job and "Comment=rule_train_segment_wildcards_2" in job]
    # The first workflow's segment also submitted the job of a second one, and cancelled it.
    trained = [job for job in training if "JobState=CANCELLED" not in job]
    assert [f"ExcNodeList={faulty}" in job for job in trained] == [True]
