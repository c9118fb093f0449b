"""Compare connected components computed in external memory with a union-find in memory."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.corpus.dedup.connected_components import components


def by_union_find(edges: list[tuple[int, int]]) -> dict[int, int]:
    """Map every node, except the smallest one of its component, to that smallest node."""
    parent: dict[int, int] = {}

    def find(node: int) -> int:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for one, other in edges:
        low, high = sorted((find(one), find(other)))
        parent[high] = low
    return {node: find(node) for node in list(parent) if find(node) != node}


def found(edges: list[tuple[int, int]], memory_bytes: int, folder: Path) -> dict[int, int]:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    batches = components(iter(np.array_split(pairs, 3)), len(pairs), memory_bytes, folder)
    rows = [(int(node), int(root)) for batch in batches for node, root in batch]
    assert len({node for node, _ in rows}) == len(rows), "each node must occur once"
    return dict(rows)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] != pair[1]), max_size=60),
    st.sampled_from([64, 1000, 1 << 20]),
)
def test_components_maps_each_node_to_the_smallest_of_its_component(
    tmp_path: Path, edges: list[tuple[int, int]], memory_bytes: int
) -> None:
    assert found(edges, memory_bytes, tmp_path) == by_union_find(edges)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("memory_bytes", [1 << 12, 1 << 24])
def test_components_handles_a_long_chain_and_a_large_star(tmp_path: Path, memory_bytes: int) -> None:
    chain = list(itertools.pairwise(np.random.default_rng(1).permutation(2000).tolist()))
    star = [(9000, 10_000 + leaf) for leaf in range(3000)]
    assert found(chain + star, memory_bytes, tmp_path) == by_union_find(chain + star)
