"""Test how layers are distributed over pipeline stages."""

from __future__ import annotations

import itertools
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import parameter_count
from bloomery.spec.partition import partition_problem, stage_bounds, stages

BLOOM = load_config(ROOT / "config/models/tr11-176b.yaml")
MODEL = ModelConfig(layers=10, hidden_size=64, heads=4, sequence_length=32)


def cut(method: str, count: int, model: ModelConfig = MODEL) -> list[int]:
    """Return the number of pipeline layers of each stage."""
    return [end - first for first, end in pairwise(stage_bounds(model, 128, count, method))]


def test_blooms_partition_method_gives_blooms_stages() -> None:
    # Source: train/tr11-176B-ml, --pp-partition-method 'type:transformer|embedding', with 72 transformer and embedding
    # layers on 12 stages.
    training = BLOOM.training.model_copy(update={"partition": "type:transformer|embedding"})
    found = [str(stage) for stage in stages(BLOOM.model, training, 250_880)]
    assert found == ["embed|5", *["6"] * 10, "5|head"]


@pytest.mark.parametrize(
    ("method", "count", "layers"),
    [
        ("type:transformer", 2, [7, 7]),
        ("type:TRANSFORMER", 5, [4, 2, 2, 2, 4]),
        ("type:transformer|embedding", 4, [4, 3, 3, 4]),
        ("type:transformer|norm|embedding|head", 2, [7, 7]),
        ("type:transformer|embedding", 1, [14]),
    ],
)
def test_layers_of_a_kind_are_distributed_evenly(method: str, count: int, layers: list[int]) -> None:
    assert cut(method, count) == layers


def test_an_untied_head_does_not_count_as_an_embedding() -> None:
    untied = MODEL.model_copy(update={"tied_embeddings": False, "layers": 3})
    tied = MODEL.model_copy(update={"layers": 3})
    # With tied embeddings, the pattern matches 5 layers: 3 blocks, the embedding and the head. Otherwise, it matches
    # only 4 layers, because the head is not an embedding.
    assert cut("type:transformer|embedding", 4, tied) != cut("type:transformer|embedding", 4, untied)
    assert cut("type:transformer|head", 4, untied) == [3, 1, 2, 1]
    assert partition_problem(untied, 4, "type:transformer|head") == "pipeline stage 3 would have no transformer block"


def test_a_large_head_counts_by_its_number_of_parameters() -> None:
    # The embedding and the head each have as many parameters as 40 blocks, so the middle stages get most blocks.
    model = ModelConfig(layers=40, hidden_size=64, heads=4, sequence_length=32)
    bounds = stage_bounds(model, 40 * 12 * 64, 4, "parameters")
    assert [end - first for first, end in pairwise(bounds)] == [3, 19, 19, 3]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4000), st.sampled_from(["parameters", "uniform"]))
def test_every_stage_gets_a_block_and_no_block_is_lost(layers: int, stages: int, rows: int, method: str) -> None:
    model = ModelConfig(layers=max(layers, stages), hidden_size=16, heads=2, sequence_length=8)
    bounds = stage_bounds(model, rows * 128, stages, method)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, model.layers + 4, stages + 1)
    cuts = [0, *(bound - 2 for bound in bounds[1:-1]), model.layers]
    assert all(second > first for first, second in itertools.pairwise(cuts))


def test_the_partition_by_parameters_has_nearly_the_smallest_largest_stage() -> None:
    model = ModelConfig(layers=9, hidden_size=32, heads=4, sequence_length=8)
    rows, stages = 1024, 4
    block = parameter_count(model, 0) // model.layers
    embedding = rows * model.hidden_size

    def greatest(cuts: tuple[int, ...]) -> int:
        counts = [second - first for first, second in itertools.pairwise((0, *cuts, model.layers))]
        return max(count * block + (embedding if i in (0, stages - 1) else 0) for i, count in enumerate(counts))

    best = min(greatest(cuts) for cuts in itertools.combinations(range(1, model.layers), stages - 1))
    bounds = stage_bounds(model, rows, stages, "parameters")
    assert greatest(tuple(bound - 2 for bound in bounds[1:-1])) <= best + block // 50
