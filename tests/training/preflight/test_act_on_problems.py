"""Test which nodes are excluded, and which problems end a segment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bloomery.base.errors import ResourceError
from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.excluded_nodes import exclude_node, read_excluded
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import Problem, ProblemKind
from bloomery.contracts.segment import FirstFailure
from training.preflight.act_on_problems import Consequences, act_on_problems, error_of
from training.preflight.preflight_error import PreflightError

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
SLOW = Problem(kind=ProblemKind.SLOW, message="slow", host="node1", rank=0, ends_segment=False)
LOST = Problem(kind=ProblemKind.MISSING_GPU, message="no GPU", host="node2", rank=4)
RECORD = Path("train/preflight/1.json")


def act(folder: Path, *problems: Problem, in_job: bool = True, nodes: int = 12, **limits: object) -> Consequences:
    limit = PreflightConfig.model_validate(limits)
    return act_on_problems(problems, RunPaths(folder), limit, nodes, NOW, in_job=in_job)


def excluded(folder: Path) -> list[str]:
    return [node.host for node in read_excluded(RunPaths(folder), NOW)]


def test_a_node_that_prevents_the_training_is_excluded_before_a_slow_one(tmp_path: Path) -> None:
    found = act(tmp_path, SLOW, LOST)
    assert found.excluded == ("node2",)
    assert excluded(tmp_path) == ["node2"]
    assert [problem.ends_segment for problem in found.problems] == [False, True]
    assert found.notes == (
        "preflight: the next segments exclude node2 until 2026-02-01T12:00:00Z",
        "preflight: node1 is not excluded, because preflights exclude at most 1 node at one time "
        "(training.preflight.max_excluded_nodes)",
    )


def test_a_slow_node_ends_the_segment_if_it_is_excluded(tmp_path: Path) -> None:
    found = act(tmp_path, SLOW, exclude_hours=2)
    error = error_of(found, RECORD)
    assert isinstance(error, PreflightError)
    assert error.exit_code == 75
    assert error.first_failure == FirstFailure(rank=0, host="node1", ending="failed the preflight: slow")
    assert "expected: other nodes than node1, which the next segments exclude" in str(error)
    (node,) = read_excluded(RunPaths(tmp_path), NOW)
    assert (node.until, node.by, node.reason) == (NOW + timedelta(hours=2), "preflight", "slow")


def test_outside_a_job_a_slow_node_is_only_reported(tmp_path: Path) -> None:
    found = act(tmp_path, SLOW, in_job=False)
    assert error_of(found, RECORD) is None
    assert excluded(tmp_path) == []


def test_more_nodes_than_the_limit_are_only_reported(tmp_path: Path) -> None:
    exclude_node(RunPaths(tmp_path), "node9", "earlier", 24, "preflight", NOW)
    exclude_node(RunPaths(tmp_path), "node8", "by hand", 24, "person", NOW)
    assert error_of(act(tmp_path, SLOW), RECORD) is None
    assert excluded(tmp_path) == ["node9", "node8"]
    # 5 % of 40 nodes are 2 nodes.
    assert act(tmp_path, SLOW, nodes=40).excluded == ("node1",)


def test_gpus_that_only_a_person_can_provide_are_no_reason_to_try_again(tmp_path: Path) -> None:
    lost = [LOST.model_copy(update={"host": f"node{n}", "exclude": False, "expected": "GPUs"}) for n in (1, 2, 3)]
    error = error_of(act(tmp_path, *lost), RECORD)
    assert isinstance(error, ResourceError)
    assert str(error) == "node1: no GPU (all 3 nodes lack GPUs); expected: GPUs"


def test_a_full_disk_of_the_run_blames_no_rank(tmp_path: Path) -> None:
    full = Problem(kind=ProblemKind.RUN_DISK, message="full", exclude=False)
    error = error_of(act(tmp_path, full), RECORD)
    assert isinstance(error, PreflightError)
    assert error.record == {"fault": "preflight", "first_failure": None}
    assert "free space on the disk of the run" in str(error)
