"""Test training in segments on a cluster: time limits, crashes and a killed workflow do not change the losses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from slurm_cluster import SlurmCluster
from slurm_workflow import SITE, alive, bloomery, iterations, paused, ranks, segments, training
from waiting import wait_for
from workflow_support import Workflow

pytestmark = pytest.mark.cluster


def snakemake_logs(workflow: Workflow) -> str:
    return "".join(path.read_text() for path in (workflow.folder / ".snakemake/log").glob("*.log"))


def test_a_training_beyond_the_time_limit_continues_in_more_segments_with_equal_losses(
    undisturbed: Workflow, untrained: Callable[..., Workflow]
) -> None:
    # On any machine, the time limit minus the margin is over before the processes have started. Every segment trains
    # at least one iteration, so each segment trains exactly one.
    short = untrained(site={"training": {**SITE["training"], "max_minutes": 5}})
    short.changed("training.segment.margin_minutes", 4.9).run("runs/long/train/segments/2.json")
    # The chain continues in short jobs, until a workflow with another site runs.
    workflow = untrained().changed("training.segment.margin_minutes", 4.9)
    workflow.run("finish_training")
    chain = segments(workflow.run_folder)
    ends = [(segment["status"], segment["iteration"]) for segment in chain]
    assert ends[:2] == [("time_limit", 1), ("time_limit", 2)]
    assert ends[2:] == [*(("time_limit", each) for each in range(3, len(ends))), ("finished", 300)]
    assert workflow.losses() == undisturbed.losses()
    found = bloomery(workflow.environment, workflow.folder, "status", "--run", "runs/long")
    assert found["segments"]["count"] == len(chain)
    assert found["checkpoint"]["name"] == chain[-1]["checkpoint"]


def test_training_survives_a_killed_workflow_and_the_next_workflow_adopts_its_job(
    cluster: SlurmCluster, undisturbed: Workflow, untrained: Callable[..., Workflow]
) -> None:
    workflow = untrained()
    first = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    orphan = training(cluster, workflow)
    found = bloomery(workflow.environment, workflow.folder, "status", "--run", "runs/long")
    assert (found["state"], found["workflow"]["alive"], found["trainer"]["job"]) == ("training", False, orphan)
    assert {job["rule"] for job in found["queue"]["jobs"]} == {"train_segment"}
    assert 0 < found["queue"]["jobs"][0]["seconds_left"] < 1200
    with paused(workflow.folder):
        second = workflow.start("finish_training")
        wait_for(lambda: f"adopting SLURM job {orphan}" in snakemake_logs(workflow), 1200, second, every=0.2)
        # The new workflow adopts the job of the killed one. The only other job waits for the next segment.
        waiting = set(alive(cluster, workflow)) - {orphan}
        assert len(waiting) <= 1
        assert len(ranks(workflow.folder)) == 2
    talk, _ = second.communicate(timeout=1800)
    assert second.returncode == 0, talk
    # The job of the killed workflow trains to the end, so no iteration is repeated or lost.
    assert workflow.losses() == undisturbed.losses()
    lines = (workflow.run_folder / "train/logs/metrics.jsonl").read_text().splitlines()
    trained = [json.loads(line)["iteration"] for line in lines if '"loss"' in line]
    assert trained == sorted(set(trained))
    assert segments(workflow.run_folder)[0]["job"] == orphan


def test_more_crashes_than_the_budget_end_the_chain(untrained: Callable[..., Workflow]) -> None:
    workflow = untrained().changed("training.segment.max_crashes", 0)
    process = workflow.start("finish_training", "--retries", "0")
    wait_for(lambda: iterations(workflow) >= 5, 1200, process)
    os.kill(ranks(workflow.folder)[0].pid, signal.SIGKILL)
    talk, _ = process.communicate(timeout=1800)
    assert process.returncode == 1
    assert "the training crashed 1 time since its last new checkpoint" in talk
    assert not (workflow.run_folder / "train/segments/1.json").exists()


def test_a_cancelled_or_stopped_training_saves_and_resumes_only_when_the_workflow_is_started_again(
    cluster: SlurmCluster, undisturbed: Workflow, untrained: Callable[..., Workflow]
) -> None:
    workflow = untrained()
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)
    cluster.run("scancel", training(cluster, workflow))
    talk, _ = process.communicate(timeout=1800)
    assert process.returncode == 1, talk
    # The segment has also cancelled the job of the next segment.
    wait_for(lambda: not alive(cluster, workflow), 120, every=0.2)
    history = json.loads((workflow.run_folder / "train/segments/history/1-1.json").read_text())
    assert history["status"] == "stopped"
    assert history["iteration"] >= 60
    # `bloomery stop` ends a training that resumed, and its workflow.
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) > history["iteration"] + 5, 1200, process)
    stop = [sys.executable, "-m", "bloomery.cli", "stop", "runs/long"]
    environment = dict(workflow.environment)
    done = subprocess.run(stop, cwd=workflow.folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "the training saves a checkpoint after its current iteration and ends" in done.stderr
    # The command waits until the training and the workflow have ended.
    assert not alive(cluster, workflow)
    talk, _ = process.communicate(timeout=600)
    assert process.returncode == 1, talk
    again = json.loads((workflow.run_folder / "train/segments/history/1-2.json").read_text())
    assert again["status"] == "stopped"
    assert again["iteration"] > history["iteration"]
    workflow.run("finish_training")
    assert workflow.losses() == undisturbed.losses()
