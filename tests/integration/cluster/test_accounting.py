"""Test runs on a cluster with accounting: slurmdbd may be away, and sacct states who cancelled a job."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from repository import ROOT
from slurm_accounting import ACCOUNT, ADMINISTRATOR_UID, AccountingCluster, missing_accounting_programs
from slurm_workflow import bloomery, iterations, training
from waiting import wait_for
from workflow_support import Workflow

from bloomery.base import slurm
from bloomery.commands.doctor_checks import FindingState, site
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault
from monitoring.timeline import read_timeline
from training.segments.job_end import JobEnd, end_by_state

pytestmark = pytest.mark.cluster

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can cancel a job as another user")

LAUNCHER = """
import json, os, pathlib, signal, sys
from training.segments.job_end import end_by_signal
received, job = [], os.environ["SLURM_JOB_ID"]
signal.signal(signal.SIGTERM, lambda *_: received.append(True))
result = pathlib.Path(sys.argv[1], job)
result.touch()
while not received:
    signal.sigtimedwait([], 0.1)
end = end_by_signal(job, 0)
result.write_text(json.dumps([end.fault, end.message]))
"""
"""Program that waits for SIGTERM and then judges the signal as a launcher does, but without a training."""


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountingCluster]:
    if missing := missing_accounting_programs():
        packages = "slurmctld slurmd slurm-client slurmdbd mariadb-server-core mariadb-client-core"
        pytest.skip(f"no {', '.join(missing)} here (apt-get install {packages})")
    with AccountingCluster(tmp_path_factory.mktemp("accounting")) as running:
        yield running


@pytest.fixture
def client(accounting: AccountingCluster, monkeypatch: pytest.MonkeyPatch) -> AccountingCluster:
    """Let this process use the client programs of the cluster. The records of earlier tests are complete."""
    accounting.wait_for_records()
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, accounting.environment[name])
    return accounting


def submit(*options: str, command: str = "exec sleep 100") -> str:
    return slurm.call("sbatch", "--parsable", "--output=/dev/null", "--mem=100", *options, f"--wrap={command}").strip()


def wait_for_state(state: str, *jobs: str) -> None:
    wait_for(lambda: {each.state for each in slurm.queue(jobs=jobs)} == {state}, 120, every=0.2)


@as_root
def test_a_signal_is_a_stop_by_the_owner_or_a_fault(client: AccountingCluster, tmp_path: Path) -> None:
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = f"PYTHONPATH={ROOT} exec {sys.executable} {tmp_path}/launcher.py {tmp_path}"
    by_owner, by_administrator, directly = (submit("--nodelist=node1", command=command) for _ in range(3))
    # The program runs on the first node, and the second node fails.
    on_lost_node = submit("--nodelist=node[1-2]", "--nodes=2", "--no-requeue", command=command)
    results = {job: tmp_path / job for job in (by_owner, by_administrator, directly, on_lost_node)}
    wait_for(lambda: all(path.exists() for path in results.values()), 120, every=0.2)
    slurm.call("scancel", by_owner)
    client.cancel_as_administrator(by_administrator)
    slurm.call("scancel", "--signal=TERM", "--full", directly)
    slurm.call("scontrol", "update", "nodename=node2", "state=down", "reason=test")
    try:
        wait_for(lambda: all(path.read_text() for path in results.values()), 120, every=0.2)
    finally:
        # This fails if slurmd has already reported that the node works.
        client.run("scontrol", "update", "nodename=node2", "state=resume")
    ends = {job: json.loads(path.read_text()) for job, path in results.items()}
    assert ends[by_owner] == [None, f"job {by_owner} was cancelled"]
    assert ends[by_administrator] == [
        "cancelled",
        f"user {ADMINISTRATOR_UID} cancelled job {by_administrator}, which belongs to user 0",
    ]
    assert ends[directly][0] == "signal"
    assert ends[on_lost_node] == ["node", f"a node of job {on_lost_node} failed"]


@as_root
def test_a_job_whose_launcher_left_no_record_was_stopped_by_its_owner_or_ended_by_a_fault(
    client: AccountingCluster,
) -> None:
    by_owner, by_administrator, during_outage = (submit() for _ in range(3))
    failed = submit(command="exit 3")
    wait_for_state("RUNNING", by_owner, by_administrator, during_outage)
    slurm.call("scancel", by_owner)
    client.cancel_as_administrator(by_administrator)
    wait_for_state("CANCELLED", by_owner, by_administrator)
    wait_for_state("FAILED", failed)
    # squeue can have forgotten the job.
    for state in ("CANCELLED", None):
        assert end_by_state(by_owner, state) == JobEnd(None, f"job {by_owner} was cancelled")
        assert end_by_state(by_administrator, state).fault is Fault.CANCELLED
    assert end_by_state(failed, None).fault is Fault.PROCESS
    client.stop_accounting()
    try:
        client.cancel_as_administrator(during_outage)
        wait_for_state("CANCELLED", during_outage)
        assert end_by_state(during_outage, "CANCELLED").fault is None, "nobody knows who cancelled the job"
        assert end_by_state(failed, None).fault is Fault.LOST
    finally:
        client.start_accounting()
    # slurmctld now sends the records to slurmdbd, which takes some seconds.
    assert end_by_state(during_outage, "CANCELLED").fault is Fault.CANCELLED


def test_cluster_init_and_doctor_work_with_and_without_slurmdbd(
    client: AccountingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init() -> object:
        options = ("--yes", "--force", "--gpus-per-node", "0", "--ranks-per-node", "2")
        bloomery(client.environment | {"LOADEDMODULES": "", "SCRATCH": ""}, tmp_path, "cluster", "init", *options)
        return yaml.safe_load((tmp_path / "site.yaml").read_text()).get("account")

    monkeypatch.setenv("BLOOMERY_SITE", str(tmp_path / "site.yaml"))
    assert init() == ACCOUNT
    assert site().state is FindingState.OK
    client.stop_accounting()
    try:
        assert site().state is FindingState.OK
        assert init() is None
    finally:
        client.start_accounting()


@as_root
def test_a_run_survives_an_administrator_who_cancels_its_training_and_an_outage_of_the_accounting(
    accounting: AccountingCluster, untrained: Callable[..., Workflow], undisturbed: Workflow
) -> None:
    workflow = untrained(cluster=accounting)
    # The run resumes from a checkpoint, because the first 200 iterations would only take time.
    saved = Path("train/checkpoints/step00000200")
    shutil.copytree(undisturbed.run_folder / saved, workflow.run_folder / saved)
    process = workflow.start("finish_training")
    wait_for(lambda: iterations(workflow) >= 5, 1200, process)
    first = training(accounting, workflow)
    accounting.cancel_as_administrator(first)
    folder = workflow.run_folder / "train/segments"
    wait_for((folder / "1.json").exists, 1200, process)
    accounting.stop_accounting()
    try:
        # The second segment submits the job of the third one, and the workflow later looks at its jobs.
        talk, _ = process.communicate(timeout=1800)
        assert process.returncode == 0, talk
        assert accounting.run("sacct").returncode != 0
        found = bloomery(workflow.environment, workflow.folder, "status", "--run", "runs/long")
    finally:
        accounting.start_accounting()
    assert (found["state"], found["queue"]) == ("finished", {"note": "", "jobs": []})
    crashed, finished = (json.loads((folder / f"{number}.json").read_text()) for number in (1, 2))
    assert (crashed["status"], crashed["fault"], crashed["job"]) == ("crashed", "cancelled", first)
    assert crashed["iteration"] >= 205, "the segment saved before it ended"
    assert f"user {ADMINISTRATOR_UID} cancelled job {first}" in crashed["message"]
    assert finished["status"] == "finished"
    assert workflow.losses() == {number: loss for number, loss in undisturbed.losses().items() if number > 200}
    submitted = accounting.run("scontrol", "show", "job", "--oneliner").stdout
    assert "Comment=rule_train_segment_wildcards_3" in submitted
    timeline = read_timeline(RunPaths(workflow.run_folder), 0.0, finished=True)
    assert [(each.segment, each.status) for each in timeline.attempts] == [(1, "crashed"), (2, "finished")]
