"""Test the workflow on a SLURM cluster: a whole run, a repeated stage, failures and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from slurm_workflow import alive, iterations
from waiting import wait_for
from workflow_support import Workflow

pytestmark = pytest.mark.cluster


def test_a_run_on_two_nodes_finishes(cluster: SlurmCluster, undisturbed: Workflow) -> None:
    run = undisturbed.run_folder
    parity = json.loads((run / "export/long/parity.json").read_text())
    assert parity["max_difference"] <= parity["tolerance"]
    log = (run / "logs/train_segment/1.log").read_text()
    assert "2 processes (tensor 1 x pipeline 2 x data 1) on cpu" in log
    jobs = cluster.run("scontrol", "show", "job", "--oneliner").stdout.splitlines()
    own = [job for job in jobs if f"WorkDir={undisturbed.folder}" in job]
    training = [job for job in own if "Comment=rule_train_segment" in job]
    # The first segment submits the job of a second one, and cancels it when the training has finished.
    assert sorted(re.search(r"JobState=(\w+)", job).group(1) for job in training) in (
        ["COMPLETED"],
        ["CANCELLED", "COMPLETED"],
    )
    assert all("NumNodes=2 NumCPUs=2 NumTasks=2" in job for job in training if "JobState=COMPLETED" in job)
    assert all("Partition=main" in job and "Account=lab" in job for job in own)


def test_shards_share_jobs(cluster: SlurmCluster, undisturbed: Workflow) -> None:
    shards = len(list((undisturbed.run_folder / "corpus/clean").rglob("*.parquet")))
    comments = cluster.squeue("--noheader", "--states=all", "--format=%k %Z").splitlines()
    own = [line.split()[0] for line in comments if line.endswith(str(undisturbed.folder))]
    assert shards >= 3
    assert len([comment for comment in own if comment.startswith("rule_read")]) == 1


def test_a_second_run_does_nothing_and_a_deleted_output_is_made_again(undisturbed: Workflow) -> None:
    assert "Nothing to be done" in undisturbed.run()
    before = undisturbed.digests("export")
    (undisturbed.run_folder / "export/long/parity.json").unlink()
    assert undisturbed.planned() == {"export_model": 1, "publish_run": 1, "all": 1}
    undisturbed.run()
    assert undisturbed.digests("export") == before


def test_a_failing_rule_reports_what_is_wrong_and_where(on_cluster: Callable[..., Workflow], tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{not json}\n" * 200)
    workflow = on_cluster().changed(
        "sources", [{"name": "bad", "kind": "jsonl", "paths": [str(bad)], "language": "en"}]
    )
    talk = workflow.run("corpus", "--retries", "0", expect=1)
    assert re.search(r"FAILED after .*: ingest bad/00000$", talk, flags=re.MULTILINE)
    assert "200 of 200 rows are bad" in talk
    assert "then resume with: " in talk


def test_a_workflow_killed_during_data_jobs_does_not_harm_the_next_one(
    cluster: SlurmCluster, undisturbed: Workflow, on_cluster: Callable[..., Workflow]
) -> None:
    workflow = on_cluster()
    process = workflow.start("corpus")
    # Wait only until the first shard is judged, because the other shards are then not judged yet.
    wait_for(lambda: any((workflow.run_folder / "corpus/verdicts").rglob("*.json")), 300, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert alive(cluster, workflow)
    assert "cancelling jobs that an earlier workflow left in the queue" in workflow.run("corpus")
    assert not alive(cluster, workflow)
    assert workflow.digests("corpus") == undisturbed.digests("corpus")


def test_ctrl_c_leaves_no_job_and_the_next_start_resumes(
    cluster: SlurmCluster, untrained: Callable[..., Workflow]
) -> None:
    # The training is long enough for any machine: after Ctrl-C, the workflow may need a minute to cancel the job.
    workflow = untrained().changed("training.train_samples", 48_000)
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)
    process.send_signal(signal.SIGINT)
    talk, _ = process.communicate(timeout=900)
    assert process.returncode != 0
    # If the training finished, the cancel failed, and Snakemake's output states why.
    assert "finished" not in (workflow.run_folder / "train/logs/main_log.txt").read_text(), talk
    wait_for(lambda: not alive(cluster, workflow), 600, every=0.2)
    assert not workflow.planned("index")
    # One more iteration is enough to see that training resumes.
    workflow.changed("training.segment.minutes", 0.001).run("runs/long/train/segments/1.json")
    log = (workflow.run_folder / "train/logs/main_log.txt").read_text()
    assert "resuming after iteration" in log
