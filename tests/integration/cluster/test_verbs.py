"""Test `bloomery cluster init`, `rehearse`, `status` and `doctor` with a real scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from slurm_cluster import SlurmCluster
from slurm_workflow import FOUR_RANKS_SITE, bloomery, end_workflows, slurm_workflow
from workflow_support import ROOT, Workflow

from bloomery.commands.doctor_checks import FindingState, site

pytestmark = pytest.mark.cluster


def test_init_detects_a_site_and_a_rehearsal_of_the_sample_runs_on_it(cluster: SlurmCluster, tmp_path: Path) -> None:
    environment = {**cluster.environment, "LOADEDMODULES": "", "SCRATCH": ""}
    found = bloomery(environment, tmp_path, "cluster", "init", "--yes", "--gpus-per-node", "0", "--ranks-per-node", "2")
    assert found["warnings"] == []
    assert found["site"]["jobs"]["partition"] == "main"
    assert found["site"]["training"]["max_minutes"] in (1200, 6000)
    # The workflow reads this file.
    assert yaml.safe_load((tmp_path / "site.yaml").read_text())["training"]["ranks_per_node"] == 2
    refusal = bloomery(environment, tmp_path, "cluster", "init", "--yes", expect=2)
    assert "--force to replace it" in refusal

    (tmp_path / "config").symlink_to(ROOT / "config")
    made = bloomery(environment, tmp_path, "cluster", "rehearse", "config/sample.yaml")
    assert (made["nodes"], made["world_size"]) == (2, 4)
    config = yaml.safe_load((tmp_path / "sample.rehearsal.yaml").read_text())
    # The data are made on this machine: only training is rehearsed, and other tests make data on the cluster.
    Workflow(tmp_path, config).run("index")
    workflow = slurm_workflow(cluster, tmp_path, config, site=FOUR_RANKS_SITE)
    try:
        workflow.run("finish_training", "--set-resources", "train_segment:runtime=20")
    finally:
        end_workflows(tmp_path)
    segments = [
        json.loads(path.read_text()) for path in sorted((workflow.run_folder / "train/segments").glob("*.json"))
    ]
    assert [segment["status"] for segment in segments] == ["time_limit", "finished"]
    jobs = cluster.run("scontrol", "show", "job", "--oneliner").stdout.splitlines()
    training = [job for job in jobs if f"WorkDir={tmp_path}" in job and "Comment=rule_train_segment" in job]
    assert len([job for job in training if "JobState=COMPLETED" in job]) == 2
    assert all("NumNodes=2" in job and "TimeLimit=00:20:00" in job for job in training)

    found = bloomery(environment, tmp_path, "status")
    assert found["state"] == "finished"
    assert found["progress"]["iteration"] == found["progress"]["total_iterations"]
    assert found["queue"] == {"note": "", "jobs": []}


def test_doctor_compares_the_site_with_the_cluster(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, cluster.environment[name])
    path = tmp_path / "site.yaml"
    monkeypatch.setenv("BLOOMERY_SITE", str(path))
    path.write_text("jobs: {partition: main}\ntraining: {partition: 'long,gpu', gpus_per_node: 4}\n")
    found = site()
    assert found.state is FindingState.WARN
    assert found.advice.split("; ") == [
        "training.partition: sinfo shows no partition 'gpu', so choose one of main, long",
        "training.gpus_per_node: 4, but a node of partition 'long' has 2 GPUs, so set at most 2",
    ]
    path.write_text("jobs: {partition: main}\ntraining: {partition: long, gpus_per_node: 2}\n")
    assert (site().state, site().advice) == (FindingState.OK, "")
