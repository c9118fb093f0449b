"""Test the number of floating-point operations of an iteration."""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.config.model import ModelConfig
from bloomery.config.run import RunConfig
from bloomery.spec.flops import iteration_flops
from bloomery.spec.parameters import parameter_count


def test_swiglu_costs_a_third_matrix() -> None:
    # Llama's rule (arXiv:2302.13971): a feed-forward size of 2/3 x 4 h keeps the number of parameters and operations.
    # Only the number of biases differs.
    shape: dict[str, Any] = {"layers": 2, "hidden_size": 96, "heads": 4, "sequence_length": 64}
    plain = ModelConfig(**shape)
    gated = ModelConfig(**shape, activation="swiglu", feed_forward_size=256)
    more = parameter_count(gated, 128) - parameter_count(plain, 128)
    assert more == 2 * (2 * 256 - 384)
    assert iteration_flops(gated, 128, 1, recomputed=False) == iteration_flops(plain, 128, 1, recomputed=False)


def test_operations_of_a_curriculum_shrink_with_the_length(bloom: RunConfig) -> None:
    def flops(length: int) -> float:
        return iteration_flops(bloom.model, 250_880, 1, recomputed=False, sequence_length=length)

    assert flops(1024) < flops(2048) / 2
    assert flops(2048) == iteration_flops(bloom.model, 250_880, 1, recomputed=False)


def test_a_wide_model_needs_six_operations_per_parameter_and_token(bloom: RunConfig) -> None:
    # arXiv:2001.08361 counts 6 N D operations, without the attention scores. The full formula differs by a few percent.
    parameters = parameter_count(bloom.model, 250_880)
    flops = iteration_flops(bloom.model, 250_880, 1, recomputed=False)
    assert flops == pytest.approx(6 * parameters * 2048, rel=0.03)
