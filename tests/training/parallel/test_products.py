"""Test matrix products of 16-bit types that are computed in fp32."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

from training.parallel import products
from training.parallel.products import linear, matmul

TYPES = [torch.bfloat16, torch.float16]


@pytest.fixture(params=[True, False], ids=["fp32-products", "native"])
def in_fp32(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Pretend that the processor lacks, or has, 16-bit instructions."""
    monkeypatch.setattr(products, "_is_slow", lambda dtype, device: request.param and dtype is not torch.float32)
    return bool(request.param)


def drawn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_()


def gradients(output: torch.Tensor, *inputs: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the output and the gradients of the inputs, for a gradient of the output that has no special values."""
    grad = torch.linspace(-1, 1, output.numel()).view(output.shape).to(output.dtype)
    yield output
    yield from torch.autograd.grad(output, inputs, grad)


def assert_rounded(found: Iterator[torch.Tensor], exact: Iterator[torch.Tensor], dtype: torch.dtype) -> None:
    """Assert that tensors of type `dtype` are those in fp32, rounded. Other orders of the sums round differently."""
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype is dtype
        step = torch.finfo(dtype).eps * theirs.abs().max()
        assert (ours.float() - theirs).abs().max() <= step


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_linear_layer_is_the_rounded_fp32_layer(dtype: torch.dtype, with_bias: bool, in_fp32: bool) -> None:
    given = [drawn(dtype, 2, 5, 8), drawn(dtype, 6, 8), *([drawn(dtype, 6)] if with_bias else [])]
    wide = [each.detach().float().requires_grad_() for each in given]
    assert_rounded(gradients(linear(*given), *given), gradients(functional.linear(*wide), *wide), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_is_the_rounded_fp32_product(dtype: torch.dtype, in_fp32: bool) -> None:
    a, b = drawn(dtype, 2, 3, 5, 8), drawn(dtype, 2, 3, 8, 4)
    wide = [each.detach().float().requires_grad_() for each in (a, b)]
    assert_rounded(gradients(matmul(a, b), a, b), gradients(wide[0] @ wide[1], *wide), dtype)


def test_only_16_bit_factors_are_saved_for_the_backward_pass(in_fp32: bool) -> None:
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        linear(drawn(torch.bfloat16, 5, 8), drawn(torch.bfloat16, 6, 8), drawn(torch.bfloat16, 6))
        matmul(drawn(torch.bfloat16, 5, 8), drawn(torch.bfloat16, 8, 6))
    assert saved
    assert {each.dtype for each in saved} == {torch.bfloat16}


def test_fp32_products_are_those_of_torch() -> None:
    x, weight, bias = drawn(torch.float32, 2, 5, 8), drawn(torch.float32, 6, 8), drawn(torch.float32, 6)
    assert linear(x, weight, bias).equal(functional.linear(x, weight, bias))
    assert matmul(x, weight.t()).equal(x @ weight.t())


def test_fp32_is_never_slow() -> None:
    assert not products._is_slow(torch.float32, "cpu")
    assert not products._is_slow(torch.bfloat16, "cuda")
