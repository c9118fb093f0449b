"""Test the preflight on ranks of several nodes, which are simulated by SLURM's variables on one machine."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import make_run, stage
from ranks import run_ranks

from bloomery.config.stages import TrainStage
from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.excluded_nodes import read_excluded
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import ProblemKind, Step, preflight_path, read_preflight

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _enter_node(ranks_per_node: int) -> str:
    """Make this rank a process of node1, node2 .. of a SLURM job. Return the name of its node."""
    rank = int(os.environ["RANK"])
    host = f"node{rank // ranks_per_node + 1}"
    os.environ |= {
        "LOCAL_RANK": str(rank % ranks_per_node),
        "LOCAL_WORLD_SIZE": str(ranks_per_node),
        "SLURMD_NODENAME": host,
        "SLURM_JOB_ID": "17",
    }
    return host


def _check(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    """Run the preflight. Return (kind of error, its message, or the size of the mesh; seconds)."""
    from bloomery.base.errors import BloomeryError
    from training.preflight.run_preflight import build_checked_mesh

    started = time.monotonic()
    try:
        mesh = build_checked_mesh(stage, RunPaths(folder), 1)
    except BloomeryError as error:
        record = getattr(error, "record", None)
        # In this test, rank 0 hosts the store, so it must end last. In a real training, torchrun hosts the store.
        _wait_for_all(folder)
        return type(error).__name__, (str(error), record), time.monotonic() - started
    return "mesh", mesh.parallel.world_size, time.monotonic() - started


def _wait_for_all(folder: Path) -> None:
    from waiting import wait_for

    (folder / f"ended-{os.environ['RANK']}").touch()
    wait_for(lambda: len(list(folder.glob("ended-*"))) == int(os.environ["WORLD_SIZE"]))


def _healthy(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    _enter_node(ranks_per_node)
    return _check(stage, folder, ranks_per_node)


def _one_slow(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    from training.preflight import matmul

    if _enter_node(ranks_per_node) == "node2":
        multiply = matmul.multiply

        def slow(a: Any, b: Any) -> Any:
            for _ in range(9):
                multiply(a, b)
            return multiply(a, b)

        matmul.multiply = slow
    return _check(stage, folder, ranks_per_node)


def _hung_disk(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    from training.preflight import check_rank

    if _enter_node(ranks_per_node) == "node2":
        # A read of an empty pipe never ends, like a write to a file server that is gone.
        reading, _ = os.pipe()
        check_rank.disk_state = lambda *_: os.read(reading, 1)
    return _check(stage, folder, ranks_per_node)


def _lost_gpus(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    if _enter_node(ranks_per_node) == "node2":
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    return _check(stage, folder, ranks_per_node)


def _no_gpus_anywhere(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    _enter_node(ranks_per_node)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    return _check(stage, folder, ranks_per_node)


def _broken_link(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    from training.preflight import all_reduce

    if _enter_node(ranks_per_node) == "node3":
        # The process of this node never joins the all-reduces, like one whose network adapter failed.
        reading, _ = os.pipe()
        all_reduce._seconds_among = lambda *_: os.read(reading, 1)
    return _check(stage, folder, ranks_per_node)


def _full_run_disk(stage: TrainStage, folder: Path, ranks_per_node: int) -> tuple[str, Any, float]:
    from bloomery.contracts.preflight import DiskState
    from training.preflight import check_rank

    _enter_node(ranks_per_node)
    measured = check_rank.disk_state

    def full(place: Path, *rest: Any) -> DiskState:
        if place.is_relative_to(folder):
            return DiskState(free_bytes=0, write_mb_per_second=0.0)
        return measured(place, *rest)

    check_rank.disk_state = full
    return _check(stage, folder, ranks_per_node)


def _stage(world: int, **preflight: Any) -> TrainStage:
    return stage(data=world, preflight=preflight)


def _make_run(folder: Path, world: int) -> None:
    make_run(folder, _stage(world))
    # The launcher has made this folder when the ranks start.
    RunPaths(folder).train.mkdir()


def test_healthy_nodes_pass_and_every_measurement_is_recorded(tmp_path: Path) -> None:
    _make_run(tmp_path, 4)
    answers = run_ranks(_healthy, 4, _stage(4), tmp_path, 2)
    assert [answer[:2] for answer in answers] == [("mesh", 4)] * 4
    record = read_preflight(preflight_path(RunPaths(tmp_path).preflight, 1))
    assert [(state.rank, state.host) for state in record.ranks] == [
        (0, "node1"),
        (1, "node1"),
        (2, "node2"),
        (3, "node2"),
    ]
    assert all(state.matmul_seconds for state in record.ranks)
    assert [state.node is not None for state in record.ranks] == [True, False, True, False]
    assert [(state.step, state.error) for state in record.communication] == [(Step.DONE, None)] * 4
    assert [[pair.peer for pair in state.pairs] for state in record.communication] == [["node2"], [], ["node1"], []]
    assert all(state.inside_seconds and state.all_seconds for state in record.communication)
    assert not [problem for problem in record.problems if problem.ends_segment]
    assert not RunPaths(tmp_path).excluded_nodes.exists()
    # Nothing but the record is left behind.
    assert sorted(path.name for path in RunPaths(tmp_path).train.iterdir()) == ["preflight"]
    assert record.seconds < PreflightConfig().max_seconds
    print("seconds of the preflight:", record.seconds, "with the mesh:", max(answer[2] for answer in answers))


def test_a_slow_node_is_named_and_excluded(tmp_path: Path) -> None:
    _make_run(tmp_path, 3)
    answers = run_ranks(_one_slow, 3, _stage(3, slow_ratio=4), tmp_path, 1)
    assert {answer[0] for answer in answers} == {"PreflightError"}
    said, record = answers[0][1]
    assert "node2: a matrix product on cpu takes" in said
    assert "other nodes than node2, which the next segments exclude" in said
    assert all(answer[1] == (said, record) for answer in answers)
    assert record["fault"] == "preflight"
    assert (record["first_failure"]["rank"], record["first_failure"]["host"]) == (1, "node2")
    assert [node.host for node in read_excluded(RunPaths(tmp_path), datetime.now(UTC))] == ["node2"]
    assert read_preflight(preflight_path(RunPaths(tmp_path).preflight, 1)).excluded == ("node2",)


def test_a_slow_node_that_may_not_be_excluded_is_only_reported(tmp_path: Path) -> None:
    _make_run(tmp_path, 3)
    answers = run_ranks(_one_slow, 3, _stage(3, slow_ratio=4, max_excluded_nodes=0), tmp_path, 1)
    assert [answer[:2] for answer in answers] == [("mesh", 3)] * 3
    slow = [
        problem
        for problem in read_preflight(preflight_path(RunPaths(tmp_path).preflight, 1)).problems
        if problem.kind is ProblemKind.SLOW and problem.host == "node2"
    ]
    assert slow
    assert not RunPaths(tmp_path).excluded_nodes.exists()


def test_a_node_whose_disk_hangs_is_named_within_the_time_limit(tmp_path: Path) -> None:
    _make_run(tmp_path, 4)
    answers = run_ranks(_hung_disk, 4, _stage(4, max_seconds=6), tmp_path, 2)
    assert {answer[0] for answer in answers} == {"PreflightError"}
    assert "node2: writing a file to" in answers[0][1][0]
    assert "did not end within 3 s" in answers[0][1][0]
    assert answers[3][1] == answers[0][1]


def test_a_node_that_lost_its_gpus_is_excluded(tmp_path: Path) -> None:
    _make_run(tmp_path, 3)
    answers = run_ranks(_lost_gpus, 3, _stage(3), tmp_path, 1)
    assert {answer[0] for answer in answers} == {"PreflightError"}
    assert "node2: this process was given 2 GPUs (CUDA_VISIBLE_DEVICES is 0,1), but torch" in answers[0][1][0]
    assert [node.host for node in read_excluded(RunPaths(tmp_path), datetime.now(UTC))] == ["node2"]


def test_gpus_that_are_missing_on_all_nodes_need_a_person(tmp_path: Path) -> None:
    _make_run(tmp_path, 2)
    answers = run_ranks(_no_gpus_anywhere, 2, _stage(2), tmp_path, 1)
    assert {answer[0] for answer in answers} == {"ResourceError"}
    said, record = answers[0][1]
    assert said.startswith("node1: this process was given 2 GPUs (CUDA_VISIBLE_DEVICES is 0,1), but torch")
    assert "(all 2 nodes lack GPUs); expected: " in said
    assert record is None
    assert not RunPaths(tmp_path).excluded_nodes.exists()


def test_a_node_whose_network_is_broken_and_its_neighbours_are_named(tmp_path: Path) -> None:
    _make_run(tmp_path, 4)
    answers = run_ranks(_broken_link, 4, _stage(4, max_seconds=20), tmp_path, 1)
    assert {answer[0] for answer in answers} == {"PreflightError"}
    record = read_preflight(preflight_path(RunPaths(tmp_path).preflight, 1))
    ends = [problem for problem in record.problems if problem.ends_segment]
    assert {problem.host for problem in ends} == {"node3", "node4"}
    assert len(record.excluded) == 1


def test_a_single_process_on_a_cpu_is_not_delayed(tmp_path: Path) -> None:
    _make_run(tmp_path, 1)
    ((kind, world, seconds),) = run_ranks(_healthy, 1, _stage(1), tmp_path, 1)
    assert (kind, world) == ("mesh", 1)
    record = read_preflight(preflight_path(RunPaths(tmp_path).preflight, 1))
    assert record.ranks[0].matmul_seconds is None
    assert record.ranks[0].node is not None
    print("seconds:", record.seconds, seconds)


def test_a_run_without_space_for_a_checkpoint_excludes_no_node(tmp_path: Path) -> None:
    _make_run(tmp_path, 2)
    answers = run_ranks(_full_run_disk, 2, _stage(2), tmp_path, 1)
    assert {answer[0] for answer in answers} == {"PreflightError"}
    said, record = answers[1][1]
    assert "the folder of the run has 0 B of free space, but the next checkpoint needs" in said
    assert record == {"fault": "preflight", "first_failure": None}
    assert not RunPaths(tmp_path).excluded_nodes.exists()
