"""Test the scheduler client with a real scheduler."""

from __future__ import annotations

import pytest
from slurm_cluster import SlurmCluster
from waiting import wait_for

from bloomery.base import slurm
from bloomery.base.errors import TryAgainError

pytestmark = pytest.mark.cluster


@pytest.fixture
def client(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, cluster.environment[name])
    return cluster


def submit(*options: str) -> str:
    job = slurm.call("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 100").strip()
    wait_for(lambda: slurm.queue(jobs=[job])[0].state != "PENDING", 60, every=0.2)
    return job


def test_the_client_reports_time_nodes_and_end_of_a_running_job(client: SlurmCluster) -> None:
    job = submit("--time=7", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--job-name=mine", "--comment=a b")
    try:
        left = slurm.seconds_left(job)
        assert left is not None
        assert 400 < left <= 420
        assert slurm.first_node_address(job) == "127.0.0.1"
        (seen,) = slurm.queue(names=["mine", "other"])
        assert (seen.job, seen.name, seen.comment, seen.state, seen.nodes) == (job, "mine", "a b", "RUNNING", 2)
        assert slurm.is_alive(job)
        submitted, started = slurm.submit_time(job), slurm.parse_time(seen.start)
        assert submitted is not None
        assert started is not None
        assert submitted == slurm.parse_time(seen.submitted)
        assert submitted <= started
    finally:
        slurm.call("scancel", job)
    wait_for(lambda: not slurm.is_alive(job), 60, every=0.2)


def test_the_client_reports_why_a_job_is_pending(client: SlurmCluster) -> None:
    job = slurm.call("sbatch", "--parsable", "--output=/dev/null", "--begin=now+1hour", "--wrap=true").strip()
    try:
        (seen,) = slurm.queue(jobs=[job])
        assert (seen.state, seen.reason) == ("PENDING", "(BeginTime)")
        assert seen.is_alive
    finally:
        slurm.call("scancel", job)


def test_an_unknown_job_is_not_alive_and_an_unreachable_scheduler_raises_an_error(
    client: SlurmCluster, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    assert not slurm.is_alive("999999")
    elsewhere = tmp_path / "slurm.conf"
    elsewhere.write_text(client.configuration.read_text().replace("SlurmctldPort=", "SlurmctldPort=1 #"))
    monkeypatch.setenv("SLURM_CONF", str(elsewhere))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(slurm, "_CALL_SECONDS", 2)
    with pytest.raises(TryAgainError):
        slurm.is_alive("1")


def test_the_client_lists_nodes_with_their_partitions_and_states(client: SlurmCluster) -> None:
    client.run("scontrol", "update", "nodename=node4", "state=drain", "reason=test")
    try:
        nodes = {(node.name, node.partition): node for node in slurm.cluster_nodes()}
        assert set(nodes) == {*((f"node{n}", "main") for n in (1, 2, 3, 4)), ("node1", "long"), ("node2", "long")}
        assert [node.in_default_partition for node in nodes.values()] == [part == "main" for _, part in nodes]
        assert {name for (name, _), node in nodes.items() if not node.is_usable} == {"node4"}
    finally:
        client.run("scontrol", "update", "nodename=node4", "state=resume")
