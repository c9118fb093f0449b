"""Test `greedy`, which chooses the documents of a cluster that are kept."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.corpus.dedup.resolve import _Edges, greedy


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_greedy_keeps_the_same_documents_as_one_pass_from_best_to_worst(case: tuple[int, set[tuple[int, int]]]) -> None:
    count, drawn = case
    pairs = sorted({(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]})
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    kept, chosen = greedy(count, _Edges(edges[:, 0], edges[:, 1], np.ones(len(pairs))))
    expected: list[bool] = []
    for node in range(count):
        expected.append(not any(expected[better] for better, worse in pairs if worse == node))
    assert kept.tolist() == expected
    for node in range(count):
        if expected[node]:
            assert chosen[node] == -1
        else:
            assert pairs[chosen[node]] == min(pair for pair in pairs if pair[1] == node and expected[pair[0]])
