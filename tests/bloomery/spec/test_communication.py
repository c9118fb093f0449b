"""Test the number of bytes that each device sends in an iteration."""

from __future__ import annotations

from typing import Any

from bloomery.config.run import RunConfig
from bloomery.spec.communication import communication
from bloomery.spec.memory import activation_bytes, memory


def with_training(config: RunConfig, **changes: Any) -> RunConfig:
    return config.model_copy(update={"training": config.training.model_copy(update=changes)})


def test_sent_bytes_follow_the_count_of_collectives(bloom: RunConfig) -> None:
    sent = communication(bloom, 2048)
    stream = 2 * 2048 * 14_336 * 2
    # Each block needs 5 all-reduces: 2 forward, 2 backward and 1 recomputed. Each sends 2 (t - 1) / t of the residual
    # stream.
    assert sent.tensor == 5 * 6 * 128 * stream * 2 * 3 // 4
    assert sent.pipeline == 2 * 128 * stream
    alone = bloom.training.parallel.model_copy(update={"tensor": 1, "pipeline": 1, "data": 1})
    assert communication(with_training(bloom, parallel=alone), 2048).total == 0


def test_sequence_parallelism_splits_the_activations_that_tensor_parallelism_repeats(bloom: RunConfig) -> None:
    split = with_training(bloom, parallel=bloom.training.parallel.model_copy(update={"sequence_parallel": True}))
    # Korthikanti et al. 2022, arXiv:2205.05198: with sequence parallelism, the tensor-parallel ranks also divide the
    # activations outside the matrix products.
    whole, parts = (activation_bytes(each.model, each.training) for each in (bloom, split))
    outside = 2 * 2048 * (4 * 14_336 * 2 + 4 * 4)
    assert whole - parts == outside * 3 // 4
    assert memory(split)[6].activations_recomputed < memory(bloom)[6].activations_recomputed / 2
    # The number of sent bytes stays the same except for additional all-gathers of matrix inputs: two in the backward
    # pass and one in the recomputation.
    assert communication(split, 2048).tensor == communication(bloom, 2048).tensor * 13 // 10
    assert communication(split, 2048).pipeline == communication(bloom, 2048).pipeline // 4
