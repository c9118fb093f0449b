"""Test the pairs of nodes whose link is measured."""

from __future__ import annotations

from collections import Counter

import pytest

from training.preflight.all_reduce import neighbours


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 49])
def test_each_node_meets_two_neighbours_and_never_two_at_once(nodes: int) -> None:
    rounds = neighbours(nodes)
    for pairs in rounds:
        assert max(Counter(node for pair in pairs for node in pair).values()) == 1
    met = Counter(node for pairs in rounds for pair in pairs for node in pair)
    assert met == Counter(dict.fromkeys(range(nodes), 2))
    assert len({frozenset(pair) for pairs in rounds for pair in pairs}) == nodes


def test_two_nodes_are_one_pair() -> None:
    assert neighbours(1) == []
    assert neighbours(2) == [[(0, 1)]]
