"""Matrix products of activations and weights, with fast 16-bit types on every processor.

A CPU without 16-bit instructions, such as one with AVX2 but without AVX-512, computes products of bf16 or fp16 matrices
12 times as slowly as products of fp32 matrices. On such a CPU, these functions cast the factors to fp32 and round the
result. Kernels for 16-bit types also add in fp32 and round once, so only the order of the sums differs. With
`activation_checkpointing: selective`, the kept products are in fp32 on such a CPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional


@lru_cache(maxsize=8)
def _is_slow(dtype: torch.dtype, device_type: str) -> bool:
    """Return whether products of this type are slow on this device."""
    if device_type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype is torch.bfloat16:
        return not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype is torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x W^T + b: [.., in], [out, in] and [out] -> [.., out]."""
    if torch.compiler.is_compiling() or not _is_slow(x.dtype, x.device.type):
        return functional.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call,no-any-return]


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of matrices: [.., m, k] and [.., k, n] -> [.., m, n].

    If a gradient is needed, all dimensions before the last two must be equal. Otherwise, they are broadcast.
    """
    if torch.compiler.is_compiling() or not _is_slow(a.dtype, a.device.type):
        return a @ b
    return _Product.apply(a, b)  # type: ignore[no-untyped-call,no-any-return]


class _Linear(torch.autograd.Function):
    """Linear layer that computes in fp32. It saves the 16-bit factors for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return functional.linear(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = grads[0].float()
        rows = grad.flatten(0, -2)
        grad_weight = rows.t() @ x.flatten(0, -2).float()
        grad_bias = rows.sum(dim=0).to(weight.dtype) if ctx.has_bias else None
        return (grad @ weight.float()).to(x.dtype), grad_weight.to(weight.dtype), grad_bias


class _Product(torch.autograd.Function):
    """Product that computes in fp32. It saves the 16-bit factors for the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return (a.float() @ b.float()).to(a.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        grad = grads[0].float()
        grad_a = grad @ b.float().transpose(-1, -2)
        grad_b = a.float().transpose(-1, -2) @ grad
        return grad_a.to(a.dtype), grad_b.to(b.dtype)
