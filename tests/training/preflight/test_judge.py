"""Test that the judge names exactly the faulty nodes among twelve."""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.preflight import DiskState, GpuState, NodeState, Problem, ProblemKind, RankState
from training.preflight.judge import judge_ranks

LIMITS = PreflightConfig()
GPUS_PER_NODE = 4
DISK = DiskState(free_bytes=10**12, write_mb_per_second=800.0)
NODE = NodeState(
    gpus=tuple(GpuState(index=i, name="H200", memory_bytes=150 * 10**9, uncorrected_errors=0) for i in range(4)),
    temporary=DISK,
    run=DISK,
    versions={"torch": "2.13.0", "commit": "abc"},
    driver="570.1",
)


def training(nodes: int = 12) -> list[RankState]:
    """Return the reports of healthy nodes, whose times differ by a few percent."""
    return [
        RankState(
            rank=rank,
            local_rank=rank % GPUS_PER_NODE,
            host=f"node{1 + rank // GPUS_PER_NODE:02d}",
            device=f"cuda:{rank % GPUS_PER_NODE}",
            memory_free_bytes=140 * 10**9,
            memory_bytes=150 * 10**9,
            matmul_seconds=0.0016 * (1 + 0.03 * (rank % 3)),
            node=NODE if rank % GPUS_PER_NODE == 0 else None,
        )
        for rank in range(nodes * GPUS_PER_NODE)
    ]


def change(states: list[RankState], rank: int, **values: Any) -> None:
    states[rank] = states[rank].model_copy(update=values)


def change_node(states: list[RankState], rank: int, **values: Any) -> None:
    change(states, rank, node=NODE.model_copy(update=values))


def judged(states: list[RankState], checkpoint_bytes: int | None = 10**11, in_job: bool = True) -> list[Problem]:
    return judge_ranks(states, LIMITS, checkpoint_bytes, in_job)


def test_healthy_nodes_have_no_problems() -> None:
    assert judged(training()) == []


def test_each_faulty_node_of_twelve_is_named_with_its_fault() -> None:
    states = training()
    change(states, 6, matmul_seconds=0.004)
    change(states, 9, missing_gpus="3 GPUs", matmul_seconds=None)
    change_node(states, 12, temporary=DiskState(free_bytes=10**6, write_mb_per_second=800.0))
    change_node(states, 16, versions={"torch": "2.12.0", "commit": "abc"})
    change_node(states, 20, run=DiskState(free_bytes=10**12, write_mb_per_second=0.2))
    change(states, 25, memory_free_bytes=60 * 10**9)
    broken = (GpuState(index=2, name="H200", uncorrected_errors=3),)
    change_node(states, 28, gpus=broken)
    change(states, 33, error="a matrix product on cuda:1 of node node09 did not end within 30 s")
    found = {(problem.host, problem.kind): problem for problem in judged(states)}
    assert set(found) == {
        ("node02", ProblemKind.SLOW),
        ("node03", ProblemKind.MISSING_GPU),
        ("node04", ProblemKind.TEMPORARY_DISK),
        ("node05", ProblemKind.VERSION),
        ("node06", ProblemKind.SLOW),
        ("node07", ProblemKind.GPU),
        ("node08", ProblemKind.GPU),
        ("node09", ProblemKind.CHECK),
    }
    assert all(problem.exclude for problem in found.values())
    assert {host for (host, _), problem in found.items() if problem.ends_segment} == {
        "node03",
        "node05",
        "node09",
    }
    slow = found["node02", ProblemKind.SLOW]
    assert slow.rank == 6
    assert slow.message == "a matrix product on cuda:2 takes 4 ms, which is 2.4 times the median of the other nodes"
    assert found["node05", ProblemKind.VERSION].message == (
        "torch is 2.12.0 on this node, but 2.13.0 on 11 of 12 nodes"
    )
    assert found["node08", ProblemKind.GPU].message == "GPU 2 (H200) reports 3 uncorrected memory errors (ECC)"


def test_of_two_nodes_one_is_slow_only_if_the_difference_is_large() -> None:
    states = training(2)
    for rank in range(4, 8):
        change(states, rank, matmul_seconds=0.0032)
    assert judged(states) == []
    change(states, 5, matmul_seconds=0.0045)
    assert [(problem.host, problem.rank) for problem in judged(states)] == [("node02", 5)]


def test_gpus_missing_on_all_nodes_are_no_fault_of_a_node() -> None:
    states = [state.model_copy(update={"missing_gpus": "no GPU"}) for state in training(3)]
    assert [(problem.host, problem.exclude) for problem in judged(states)] == [
        ("node01", False),
        ("node02", False),
        ("node03", False),
    ]


@pytest.mark.parametrize(
    ("without_cuda", "in_job", "exclude"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_a_single_node_without_gpus_is_excluded_if_another_node_may_have_them(
    without_cuda: bool, in_job: bool, exclude: bool
) -> None:
    states = [
        state.model_copy(update={"missing_gpus": "no GPU", "without_cuda": without_cuda}) for state in training(1)
    ]
    (problem,) = judged(states, in_job=in_job)
    assert (problem.exclude, problem.ends_segment) == (exclude, True)


def test_a_full_disk_of_the_run_is_no_fault_of_a_node() -> None:
    (problem,) = judged(training(), checkpoint_bytes=2 * 10**12)
    assert (problem.kind, problem.host, problem.exclude) == (ProblemKind.RUN_DISK, None, False)
    assert "the next checkpoint needs" in problem.message
    assert judged(training(), checkpoint_bytes=None) == []


def test_a_file_server_that_fails_on_most_nodes_excludes_none() -> None:
    states = training(3)
    for rank in (0, 4):
        change(states, rank, error="writing a file failed")
    assert [problem.exclude for problem in judged(states)] == [False, False]


def test_versions_without_a_majority_exclude_no_node() -> None:
    states = training(2)
    change_node(states, 4, versions={"torch": "2.12.0", "commit": "abc"})
    assert [(problem.host, problem.exclude) for problem in judged(states)] == [("node02", False)]


def test_other_drivers_and_reduced_clocks_are_only_reported() -> None:
    states = training(3)
    hot = (GpuState(index=0, name="H200", clock_mhz=900, max_clock_mhz=1980, throttled_by=("temperature (hardware)",)),)
    change_node(states, 4, driver="560.9", gpus=hot)
    found = judged(states)
    assert {problem.kind for problem in found} == {ProblemKind.VERSION, ProblemKind.GPU}
    assert {problem.host for problem in found} == {"node02"}
    assert not any(problem.ends_segment or problem.exclude for problem in found)
    assert "GPU 0 (H200) reduced its clock to 900 of 1980 MHz: temperature (hardware)" in {p.message for p in found}


def test_slow_writes_of_all_nodes_are_only_reported() -> None:
    states = training(2)
    for rank in (0, 4):
        change_node(states, rank, run=DiskState(free_bytes=10**12, write_mb_per_second=0.2))
    (problem,) = judged(states)
    assert (problem.host, problem.ends_segment, problem.exclude) == (None, False, False)


def test_a_smaller_gpu_is_only_reported() -> None:
    states = training(3)
    change(states, 7, memory_bytes=80 * 10**9, memory_free_bytes=75 * 10**9)
    (problem,) = judged(states)
    assert problem.message.startswith("GPU 3 has 74.5 GiB of memory")
    assert not problem.ends_segment
    assert not problem.exclude
