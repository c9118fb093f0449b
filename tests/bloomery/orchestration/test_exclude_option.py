"""Test the option of sbatch for excluded nodes, with the answers of a small cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bloomery.base import slurm
from bloomery.base.errors import TryAgainError
from bloomery.base.slurm import ClusterNode
from bloomery.contracts.excluded_nodes import exclude_node
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.exclude_option import exclude_option
from bloomery.orchestration.training_job import TrainingJob

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def job(nodes: int, **place: str) -> TrainingJob:
    return TrainingJob(nodes, 8, 64, 1000, 600, None, place, exclusive=False)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with four usable nodes and one that is drained, in the default partition, and two in another."""
    nodes = [ClusterNode(f"node{n}", "idle", "main", True) for n in (1, 2, 3, 4)]
    nodes += [ClusterNode("node5", "drained", "main", True), ClusterNode("node6", "mixed", "gpu", False)]
    nodes += [ClusterNode("node1", "idle", "gpu", False)]
    monkeypatch.setattr(slurm, "cluster_nodes", lambda: nodes)


def exclude(paths: RunPaths, host: str, hours: float = 24, by: str = "preflight") -> None:
    exclude_node(paths, host, "slow", hours, by, NOW)


def test_without_exclusions_there_is_no_option(tmp_path: Path) -> None:
    assert exclude_option(RunPaths(tmp_path), NOW) is None


def test_exclusions_that_have_not_ended_are_in_the_option(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    exclude(paths, "node3", 1)
    exclude(paths, "node7")
    assert exclude_option(paths, NOW) == "--exclude=node3,node7"
    assert exclude_option(paths, NOW + timedelta(hours=1)) == "--exclude=node7"


@pytest.mark.usefixtures("cluster")
def test_a_job_without_enough_other_nodes_uses_excluded_nodes_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path)
    exclude(paths, "node1", 10)
    exclude(paths, "node2", 5)
    assert exclude_option(paths, NOW, job(2)) == "--exclude=node1,node2"
    assert exclude_option(paths, NOW, job(3)) == "--exclude=node1"
    assert "node2 is used although a preflight excluded it, because the job needs 3 nodes" in capsys.readouterr().err
    assert exclude_option(paths, NOW, job(4)) is None
    assert exclude_option(paths, NOW, job(1, slurm_partition="gpu")) == "--exclude=node1,node2"
    assert exclude_option(paths, NOW, job(2, slurm_partition="gpu")) == "--exclude=node2"


@pytest.mark.usefixtures("cluster")
def test_exclusions_by_a_person_stay(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    exclude(paths, "node1", by="person")
    assert exclude_option(paths, NOW, job(4)) == "--exclude=node1"


@pytest.mark.usefixtures("cluster")
def test_nodes_that_slurm_does_not_know_are_left_out(tmp_path: Path) -> None:
    """sbatch refuses a job that excludes an unknown node."""
    paths = RunPaths(tmp_path)
    exclude(paths, "removed")
    exclude(paths, "node2")
    assert exclude_option(paths, NOW, job(2)) == "--exclude=node2"


def test_a_scheduler_that_does_not_answer_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> list[ClusterNode]:
        raise TryAgainError("no answer")

    monkeypatch.setattr(slurm, "cluster_nodes", silent)
    paths = RunPaths(tmp_path)
    exclude(paths, "node1")
    assert exclude_option(paths, NOW, job(4)) == "--exclude=node1"


def test_a_damaged_list_is_reported_and_excludes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = RunPaths(tmp_path)
    paths.train.mkdir()
    paths.excluded_nodes.write_text("{")
    assert exclude_option(paths, NOW) is None
    assert "no node is excluded from the next segment" in capsys.readouterr().err
