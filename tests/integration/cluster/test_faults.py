"""Test that ordinary faults of a cluster neither end a run nor change its losses."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from slurm_cluster import PREEMPTION, SlurmCluster
from slurm_workflow import SITE, end_workflows, iterations, paused, ranks, segments, training
from waiting import wait_for
from workflow_support import Workflow

pytestmark = pytest.mark.cluster

LEAK = """\
import sys
if "training.loop.main" in sys.orig_argv and "training.processes.torchrun" not in sys.orig_argv:
    import os, pathlib
    from training.loop.control import ControlPlane
    poll, marker = ControlPlane.poll, pathlib.Path(os.path.dirname(__file__)) / "leaked"
    polls, kept = 0, []
    def leak(self, report=None):
        global polls
        polls += 1
        if polls == 60 and os.environ["RANK"] == "1" and not marker.exists():
            marker.touch()
            kept.append(b"\\1" * (4 << 30))
        return poll(self, report)
    ControlPlane.poll = leak
"""
"""Code of every Python process. Once, rank 1 takes 4 GiB of memory after 60 iterations."""
MIN_JOB_AGE = 5
"""Seconds for which slurmctld remembers an ended job. This is less than an outage of the tests."""


@pytest.fixture(scope="module")
def faulty_cluster(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A cluster whose daemons the tests may disturb. It soon forgets ended jobs and soon kills processes."""
    # SLURM measures the memory of jobs, and kills the processes of a node that take more than the job requested.
    memory = {"JobAcctGatherType": "jobacct_gather/linux"}
    settings = {"KillWait": "15", "MinJobAge": str(MIN_JOB_AGE), **memory}
    with SlurmCluster(tmp_path_factory.mktemp("faulty"), settings=settings, partitions=PREEMPTION) as running:
        yield running


@pytest.fixture
def faulty(
    faulty_cluster: SlurmCluster, untrained: Callable[..., Workflow], tmp_path: Path
) -> Iterator[Callable[..., Workflow]]:
    """Return a function that makes an untrained workflow on the faulty cluster."""
    yield lambda **options: untrained(cluster=faulty_cluster, **options)
    end_workflows(tmp_path)
    faulty_cluster.queue_for(None)
    faulty_cluster.fail_sbatch()


def finish(workflow: Workflow, process: Any, undisturbed: Workflow) -> list[dict[str, Any]]:
    """Wait until the workflow has finished without help, and return its segments."""
    talk, _ = process.communicate(timeout=1800)
    assert process.returncode == 0, talk
    assert workflow.losses() == undisturbed.losses()
    return segments(workflow.run_folder)


def test_a_run_survives_failed_submissions_and_a_scheduler_that_is_away_and_forgets_its_jobs(
    faulty_cluster: SlurmCluster, faulty: Callable[..., Workflow], undisturbed: Workflow
) -> None:
    workflow = faulty()
    faulty_cluster.fail_sbatch("before", "after")
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)
    # The second sbatch also failed, but SLURM accepted its job. A third one would have submitted the job twice.
    first = training(faulty_cluster, workflow)
    faulty_cluster.stop_controller()
    wait_for(lambda: iterations(workflow) >= 300, 1200, process)
    finished = workflow.run_folder / "train/segments/1.json"
    wait_for(finished.exists, 1200, process)
    # When slurmctld comes back, the job has ended longer ago than slurmctld remembers jobs.
    ended = time.monotonic()
    wait_for(lambda: time.monotonic() - ended > 3 * MIN_JOB_AGE, 120, process)
    faulty_cluster.start_controller()
    (segment,) = finish(workflow, process, undisturbed)
    assert (segment["status"], segment["job"], segment["nodes"]) == ("finished", first, ["node1", "node2"])


def test_a_training_that_slurm_kills_for_its_memory_continues(
    faulty: Callable[..., Workflow], undisturbed: Workflow, tmp_path: Path
) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python/sitecustomize.py").write_text(LEAK)
    paths = [str(tmp_path / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    site = {"training": {**SITE["training"], "memory_mb_per_node": 3000}}
    workflow = faulty(site=site, PYTHONPATH=os.pathsep.join(paths))
    process = workflow.start("finish_training")
    crashed, finished = finish(workflow, process, undisturbed)
    assert (tmp_path / "python/leaked").exists()
    assert (crashed["status"], finished["status"]) == ("crashed", "finished")
    # SLURM has killed all processes on the node of the rank, so none could report why. SLURM's words are in the log.
    assert crashed["fault"] == "process"
    log = (workflow.run_folder / "logs/train_segment/1.log").read_text()
    assert "exceeded memory limit" in log, log[-3000:]


def test_a_preempted_training_continues_in_the_job_that_waits_for_it(
    faulty_cluster: SlurmCluster, faulty: Callable[..., Workflow], undisturbed: Workflow
) -> None:
    workflow = faulty(site={"training": {**SITE["training"], "partition": "cheap"}})
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)
    first = training(faulty_cluster, workflow)
    urgent = ("sbatch", "--parsable", "--partition=urgent", "--exclusive", "--nodes=4", "--output=/dev/null")
    faulty_cluster.run(*urgent, "--wrap=sleep 1")
    segments = finish(workflow, process, undisturbed)
    assert [(each["status"], each["fault"]) for each in segments] == [("crashed", "preempted"), ("finished", None)]
    assert segments[0]["job"] == first
    assert segments[0]["iteration"] >= 60, "the segment saved before it ended"


def test_a_training_that_hangs_until_the_time_limit_of_its_job_continues(
    faulty_cluster: SlurmCluster, faulty: Callable[..., Workflow], undisturbed: Workflow
) -> None:
    workflow = faulty().changed("training.heartbeat", None)
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)
    with paused(workflow.folder):
        job = training(faulty_cluster, workflow)
        # The end of a job of 20 minutes is not worth waiting for.
        faulty_cluster.run("scontrol", "update", f"jobid={job}", "timelimit=1")
        ended = workflow.run_folder / "train/segments/1.json"

        def has_ended() -> bool:
            # SLURM sends SIGCONT before SIGTERM. A rank that really hangs would not continue.
            for rank in ranks(workflow.folder):
                with contextlib.suppress(psutil.NoSuchProcess):
                    rank.suspend()
            return ended.exists()

        wait_for(has_ended, 600, process)
    segments = finish(workflow, process, undisturbed)
    assert [(each["status"], each["fault"]) for each in segments] == [("crashed", "time limit"), ("finished", None)]


def test_the_next_segment_waits_in_the_queue_before_the_last_one_ends(
    faulty_cluster: SlurmCluster, faulty: Callable[..., Workflow], undisturbed: Workflow
) -> None:
    queue_seconds = 60
    workflow = faulty().changed("training.segment.iterations", 150)
    faulty_cluster.queue_for(queue_seconds)
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 60, 1200, process)

    def reason_of_the_waiting_job() -> str:
        return faulty_cluster.squeue("--noheader", "--states=PENDING", "--format=%r")

    with paused(workflow.folder):
        wait_for(lambda: reason_of_the_waiting_job() == "Dependency", 600, process, every=0.5)
    first, second = finish(workflow, process, undisturbed)
    assert [first["status"], second["status"]] == ["time_limit", "finished"]
    gap = datetime.fromisoformat(second["started"]) - datetime.fromisoformat(first["ended"])
    # The workflow itself would submit the second job after the end of the first one.
    assert gap.total_seconds() < queue_seconds
    jobs = faulty_cluster.run("scontrol", "show", "job", "--oneliner").stdout.splitlines()
    fields = ("NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "TimeLimit", "Partition", "Account", "MinMemoryNode")
    shown = {
        each["job"]: {
            field: word.split("=", 1)[1] for word in line.split() for field in fields if word.startswith(f"{field}=")
        }
        for each in (first, second)
        for line in jobs
        if line.startswith(f"JobId={each['job']} ")
    }
    # slurmctld forgets a job after some seconds, so the first one may be gone.
    assert len({json.dumps(each, sort_keys=True) for each in shown.values()}) <= 1
