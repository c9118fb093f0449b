"""Test that LayerNorm gives the same results with apex and with torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fake_apex import fused_layer_norm_affine

HIDDEN = 32


@pytest.mark.usefixtures("apex")
@pytest.mark.parametrize("handed", [False, True], ids=["own", "handed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_layer_norm_of_apex_equals_that_of_torch(mesh: Any, dtype: torch.dtype, handed: bool) -> None:
    """The layer uses its own or passed weight and bias, and an epsilon that is not the default."""
    from training.model.norm import LayerNorm

    layers = [LayerNorm(mesh, HIDDEN, 0.25, fused).to(dtype) for fused in (True, False)]
    random, calls, results = torch.Generator().manual_seed(3), [], []
    x, weight, bias = (torch.randn(*shape, generator=random) for shape in ((2, 5, HIDDEN), (HIDDEN,), (HIDDEN,)))
    assert layers[0].kernel is fused_layer_norm_affine
    layers[0].kernel = lambda *given: calls.append(given) or fused_layer_norm_affine(*given)
    for layer in layers:
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        given = x.to(dtype).requires_grad_()
        affine = (layer.weight * 2, layer.bias + 1) if handed else ()
        found = layer(given, *affine)
        found.float().square().sum().backward()
        results.append([found, given.grad, layer.weight.grad, layer.bias.grad])
    for fused, plain in zip(*results, strict=True):
        assert fused.dtype is dtype
        torch.testing.assert_close(fused, plain, rtol=0, atol=0)
    ((_, _, _, shape, epsilon),) = calls
    assert (tuple(shape), epsilon) == ((HIDDEN,), 0.25)
