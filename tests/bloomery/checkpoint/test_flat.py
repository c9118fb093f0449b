"""Where a parameter lies in the flat state, against the state laid out element by element."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bloomery.base.errors import ConfigError
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.checkpoint.flat import FlatState
from bloomery.config.model import ModelConfig
from bloomery.spec.groups import held, optimizer_groups
from bloomery.spec.parameters import declare, padded_vocabulary
from bloomery.spec.partition import stage_bounds

MODEL = ModelConfig(layers=3, hidden_size=12, heads=4, sequence_length=8, vocabulary_multiple=8)


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 2), (4, 3)])
def test_every_element_is_found_where_the_flat_state_has_it(replicas: int, tensor: int, pipeline: int) -> None:
    parameters = declare(MODEL, 32)
    bounds = stage_bounds(MODEL, 32, pipeline, "parameters")
    for first, end in pairwise(bounds):
        own = held(parameters, first, end)
        state = FlatState(own, tensor, replicas)
        # The flat state of each group as a list of (parameter, element), cut into equal parts.
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


def test_a_tied_embedding_is_held_by_both_its_stages() -> None:
    parameters = declare(MODEL, 32)
    bounds = stage_bounds(MODEL, 32, 3, "parameters")
    holders = [[p.name for p in held(parameters, first, end)] for first, end in pairwise(bounds)]
    assert [names[0] == "word_embeddings.weight" for names in holders] == [True, False, True]
    assert sorted({name for names in holders for name in names}) == sorted(p.name for p in parameters)


def test_a_training_keeps_the_rows_that_it_began_with() -> None:
    from types import SimpleNamespace

    assert embedding_rows(None, 33, MODEL, 2) == padded_vocabulary(33, MODEL, 2) == 48
    manifest = SimpleNamespace(vocabulary_rows=48, tensor_parallel=2)
    assert embedding_rows(manifest, 33, MODEL, 4) == 48  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"5 does not divide the 48 embedding rows .* one of 1, 2, 3, 4, 6, 8;"):
        embedding_rows(manifest, 33, MODEL, 5)  # type: ignore[arg-type]
