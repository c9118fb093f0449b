"""Test the part of self-attention that does not depend on the back end."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.mark.parametrize("stable", [True, False])
def test_stable_attention_scales_both_queries_and_keys(mesh: Any, stable: bool) -> None:
    """With `stable_attention`, queries and keys are each multiplied by head_size^(-1/4) before their product."""
    from fabricated_training import stage

    from training.model.self_attention import SelfAttention

    model = stage().model.model_copy(update={"stable_attention": stable})
    attention, handed = SelfAttention(mesh, model, "eager"), []
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(parameter.numel()))
    attention.attend = lambda *parts: handed.extend(parts) or parts[2]
    x = torch.randn(1, 8, model.hidden_size, generator=torch.Generator().manual_seed(1))
    attention(x, attention.dense.bias)
    parts = attention.query_key_value(x).unflatten(-1, (-1, 3, model.head_size)).unbind(dim=-2)
    scale = model.head_size**-0.25 if stable else 1.0
    for found, part, factor in zip(handed, parts, (scale, scale, 1.0), strict=True):
        torch.testing.assert_close(found, part * factor)
