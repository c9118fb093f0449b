"""Test that broken and slow links and wrong clocks are attributed to the right nodes."""

from __future__ import annotations

from typing import Any

from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.preflight import CommunicationState, PairTime, Problem, ProblemKind, Step
from training.preflight.all_reduce import neighbours
from training.preflight.judge_communication import judge_communication

LIMITS = PreflightConfig()


def nodes(count: int, slow: frozenset[str] = frozenset(), links: frozenset[frozenset[str]] = frozenset()) -> Any:
    """Return the reports of one process per node. Links of the nodes `slow`, and the given links, are slow."""
    names = [f"node{number}" for number in range(1, count + 1)]
    pairs: dict[str, list[PairTime]] = {name: [] for name in names}
    for one, other in (pair for pairs_of_round in neighbours(count) for pair in pairs_of_round):
        ends = frozenset((names[one], names[other]))
        seconds = 0.9 if ends & slow or ends in links else 0.01
        pairs[names[one]].append(PairTime(peer=names[other], seconds=seconds))
        pairs[names[other]].append(PairTime(peer=names[one], seconds=seconds))
    return [
        CommunicationState(
            rank=rank,
            host=name,
            step=Step.DONE,
            inside_seconds=0.002,
            pairs=tuple(pairs[name]),
            all_seconds=0.01,
            clock=1e9,
        )
        for rank, name in enumerate(names)
    ]


def change(states: list[CommunicationState], rank: int, **values: Any) -> None:
    states[rank] = states[rank].model_copy(update=values)


def blamed(found: list[Problem]) -> list[tuple[str | None, bool, bool]]:
    return [(problem.host, problem.ends_segment, problem.exclude) for problem in found]


def test_healthy_links_have_no_problems() -> None:
    for count in (1, 2, 3, 4, 7, 12):
        assert judge_communication(nodes(count), LIMITS) == []


def test_a_node_with_two_slow_links_is_slow() -> None:
    for count in (3, 4, 5, 12):
        found = judge_communication(nodes(count, slow=frozenset({"node2"})), LIMITS)
        assert blamed(found) == [("node2", False, True)]
    assert found[0].message.startswith("an all-reduce with node1 and with node3 takes 900 ms and 900 ms")


def test_a_single_slow_link_is_reported_without_a_node_at_fault() -> None:
    found = judge_communication(nodes(6, links=frozenset({frozenset({"node3", "node4"})})), LIMITS)
    assert blamed(found) == [(None, False, False)]
    assert "between node3 and node4" in found[0].message


def test_a_node_whose_processes_communicate_slowly_is_slow() -> None:
    states = nodes(4)
    change(states, 2, inside_seconds=0.3)
    assert blamed(judge_communication(states, LIMITS)) == [("node3", False, True)]


def test_short_delays_on_a_busy_machine_are_no_problem() -> None:
    states = nodes(4)
    change(states, 2, inside_seconds=0.04)
    assert judge_communication(states, LIMITS) == []


def test_only_the_first_failure_is_a_cause() -> None:
    states = nodes(4)
    for rank in range(4):
        change(states, rank, step=Step.ALL, error="the all-reduce among all processes did not end within 30 s")
    change(states, 1, step=Step.INSIDE, error="the all-reduce among the processes of node node2 failed", pairs=())
    assert blamed(judge_communication(states, LIMITS)) == [("node2", True, True)]
    change(states, 1, step=Step.ALL, error="late")
    assert blamed(judge_communication(states, LIMITS)) == [(None, True, False)]


def test_both_nodes_of_a_broken_link_are_named() -> None:
    states = nodes(4)
    for rank in (0, 1, 2, 3):
        pairs = states[rank].pairs[: 0 if rank in (2, 3) else 1]
        change(states, rank, step=Step.PAIRS, error="the all-reduce with node x did not end", pairs=pairs)
    assert blamed(judge_communication(states, LIMITS)) == [("node3", True, True), ("node4", True, True)]


def test_clocks_are_compared_with_the_median() -> None:
    states = nodes(5)
    change(states, 1, clock=1e9 + 4.5)
    change(states, 3, clock=1e9 - 3600)
    found = judge_communication(states, LIMITS)
    assert blamed(found) == [("node2", False, False), ("node4", False, True)]
    assert {problem.kind for problem in found} == {ProblemKind.CLOCK}
    assert found[0].message == "the clock of this node is 4.5 s ahead of the median of all nodes"
