"""Test which ranks are named when the results of a replay differ."""

from __future__ import annotations

from bloomery.config.training import ParallelConfig
from training.guards.compare_replay import Computation, Difference, Result, first_difference

RESULTS = [Result(0, "the output of layer 0"), Result(3, "the gradient of a"), Result(3, "the gradient of b")]
HEALTHY = [10, 11, 12]


def _first_difference(
    parallel: ParallelConfig,
    wrong: dict[int, tuple[list[int], list[int]]],
    results: dict[int, list[Result]] | None = None,
) -> Difference | None:
    """Compare ranks. `wrong` has the fingerprints (first, second computation) of ranks that are not healthy."""
    computations = [
        Computation(f"n{rank}", (results or {}).get(rank, RESULTS), *wrong.get(rank, (HEALTHY, HEALTHY)))
        for rank in range(parallel.world_size)
    ]
    return first_difference(parallel, computations)


def test_equal_results_are_no_difference() -> None:
    assert _first_difference(ParallelConfig(tensor=2, data=2), {}) is None


def test_a_rank_that_differs_from_most_replicas_is_named() -> None:
    other = [10, 99, 12]
    found = _first_difference(ParallelConfig(data=4), {2: (other, other)})
    assert found is not None
    assert (found.kind, found.ranks, found.nodes, found.names) == ("odd", [2], ["n2"], ["the gradient of a"])


def test_a_rank_that_does_not_repeat_its_result_is_named_and_not_the_healthy_one() -> None:
    for first, second in ((HEALTHY, [10, 99, 99]), ([10, 99, 99], HEALTHY)):
        found = _first_difference(ParallelConfig(data=2), {1: (first, second)})
        assert found is not None
        assert (found.kind, found.ranks, found.everywhere) == ("unstable", [1], False)
        assert found.names == ["the gradient of a", "the gradient of b"]


def test_without_a_majority_all_candidates_are_named() -> None:
    found = _first_difference(ParallelConfig(data=2), {1: ([1, 1, 1], [1, 1, 1])})
    assert found is not None
    assert (found.kind, found.ranks) == ("unclear", [0, 1])
    assert "rank 0 on node n0 and rank 1 on node n1 computed the output of layer 0 from" in found.message


def test_kernels_that_are_not_deterministic_are_mentioned_if_no_replica_repeats_its_result() -> None:
    wrong = {rank: ([10, rank, 12], [10, rank + 50, 12]) for rank in range(2)}
    found = _first_difference(ParallelConfig(data=2), wrong)
    assert found is not None
    assert found.everywhere
    assert "every replica did so, so the cause may also be kernels that are not deterministic" in found.message
    single = _first_difference(ParallelConfig(), {0: wrong[0]})
    assert single is not None
    assert (single.kind, single.ranks) == ("unstable", [0])
    assert "the only replica did" in single.message


def test_the_earliest_step_of_all_stages_decides() -> None:
    """Rank 3 is the second stage of the second replica. Its fault reaches the first stage in the backward pass."""
    last = [Result(1, "the output of layer 1"), Result(2, "the gradient of c"), Result(2, "the gradient of d")]
    wrong = {1: ([10, 98, 99], HEALTHY), 3: ([10, 11, 99], HEALTHY)}
    found = _first_difference(ParallelConfig(pipeline=2, data=2), wrong, {2: last, 3: last})
    assert found is not None
    assert (found.ranks, found.names) == ([3], ["the gradient of d"])
