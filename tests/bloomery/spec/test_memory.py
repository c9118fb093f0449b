"""Test the memory of each pipeline stage against a calculation by hand and for other layouts."""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.memory import memory
from planner.planned_state import speed_at, state_at

GIB = 2**30


def with_training(config: RunConfig, **changes: Any) -> RunConfig:
    return config.model_copy(update={"training": config.training.model_copy(update=changes)})


def test_the_memory_of_bloom_equals_the_calculation_by_hand(bloom: RunConfig) -> None:
    # The stage has 6 blocks, split over 4 tensor-parallel ranks. A parameter has 2 bytes of weight, 4 bytes of
    # gradient, and 12 bytes of master weight and moments, which 8 replicas share.
    middle = memory(bloom)[6]
    hidden, norms_and_biases = 14_336, 6 * (4 + 2) * 14_336
    split = (6 * (12 * hidden**2 + 13 * hidden) - norms_and_biases) // 4 + norms_and_biases
    assert middle.parameters == split
    assert (middle.weights, middle.gradients) == (2 * split, 4 * split)
    assert middle.optimizer == pytest.approx(12 * split / 8, abs=12)
    # With recomputation, the stage keeps the inputs of 6 blocks for 6 micro-batches in flight, and all activations of
    # the one block that it recomputes. These include the attention weights of 28 heads before and after dropout.
    stream, attention_weights = 2 * 2048 * hidden * 2, 2 * 28 * 2048**2 * 2
    assert middle.activations == pytest.approx(36 * stream + 2 * attention_weights, rel=0.2)
    assert middle.activations_kept > 5 * middle.activations
    assert middle.total < 80 * GIB


def test_memory_shrinks_with_every_kind_of_parallelism(bloom: RunConfig) -> None:
    def worst(**sizes: int) -> int:
        parallel = bloom.training.parallel.model_copy(update=sizes)
        return max(stage.total for stage in memory(with_training(bloom, parallel=parallel)))

    assert worst(tensor=8) < worst() < worst(tensor=2)
    assert worst(data=16) < worst() < worst(data=1)
    assert worst(pipeline=14) < worst() < worst(pipeline=7)
    kept = with_training(bloom, activation_checkpointing="none")
    assert [stage.total for stage in memory(kept)] > [stage.total for stage in memory(bloom)]


def test_selective_recomputation_needs_memory_between_full_and_none(bloom: RunConfig) -> None:
    found = memory(with_training(bloom, activation_checkpointing="selective"))[6]
    assert found.activations == found.activations_selective
    assert found.activations_recomputed < found.activations_selective < found.activations_kept
    # Selective recomputation repeats no matrix product.
    selective = with_training(bloom, activation_checkpointing="selective")
    speed = speed_at(selective, state_at(selective, iteration=1), 100.0)
    assert speed.tflops_hardware == speed.tflops_model
