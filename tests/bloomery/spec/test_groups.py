"""Test the parameter groups of the optimizer."""

from __future__ import annotations

from itertools import pairwise

from bloomery.config.model import ModelConfig
from bloomery.spec.groups import held
from bloomery.spec.parameters import declare
from bloomery.spec.partition import stage_bounds

MODEL = ModelConfig(layers=3, hidden_size=12, heads=4, sequence_length=8, vocabulary_multiple=8)


def test_a_tied_embedding_is_held_by_the_first_and_the_last_stage() -> None:
    parameters = declare(MODEL, 32)
    bounds = stage_bounds(MODEL, 32, 3, "parameters")
    holders = [[p.name for p in held(parameters, first, end)] for first, end in pairwise(bounds)]
    assert [names[0] == "word_embeddings.weight" for names in holders] == [True, False, True]
    assert sorted({name for names in holders for name in names}) == sorted(p.name for p in parameters)
