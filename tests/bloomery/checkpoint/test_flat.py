"""Compare the computed positions in the flat optimizer state with a state built element by element."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bloomery.checkpoint.flat import FlatState
from bloomery.config.model import ModelConfig
from bloomery.spec.groups import held, optimizer_groups
from bloomery.spec.parameters import declare
from bloomery.spec.partition import stage_bounds

MODEL = ModelConfig(layers=3, hidden_size=12, heads=4, sequence_length=8, vocabulary_multiple=8)


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 2), (4, 3)])
def test_each_parameter_element_is_found_at_its_position_in_the_flat_state(
    replicas: int, tensor: int, pipeline: int
) -> None:
    parameters = declare(MODEL, 32)
    bounds = stage_bounds(MODEL, 32, pipeline, "parameters")
    for first, end in pairwise(bounds):
        own = held(parameters, first, end)
        state = FlatState(own, tensor, replicas)
        # Build each group's flat state as a list of (parameter, element) pairs, and split it equally among the
        # replicas.
        for number, group in enumerate(optimizer_groups(own)):
            flat = [(p.name, n) for p in group for n in range(math.prod(p.shard_shape(tensor)))]
            flat += [("", 0)] * (-len(flat) % (2 * replicas))
            size = len(flat) // replicas
            assert state.part_sizes[number] == size
            parts = [flat[replica * size : (replica + 1) * size] for replica in range(replicas)]
            for parameter in group:
                found: list[tuple[str, int]] = []
                for piece in state.pieces(parameter):
                    assert piece.group == number
                    assert piece.first == len(found)
                    found += parts[piece.replica][piece.start : piece.start + piece.count]
                assert found == [(parameter.name, n) for n in range(math.prod(parameter.shard_shape(tensor)))]
            for replica, part in enumerate(parts):
                starts = {name: part.index(next(e for e in part if e[0] == name)) for name, _ in part if name}
                assert state.slices(replica)[number] == {
                    name: (start, sum(e[0] == name for e in part)) for name, start in starts.items()
                }
