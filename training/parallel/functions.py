"""Autograd functions at which activations enter and leave a tensor-parallel region.

The backward pass of each function is the conjugate collective of its forward pass. Without sequence parallelism, the
activations outside of a region are replicated: identity on entry, all-reduce on exit (f and g in Shoeybi et al. 2019,
arXiv:1909.08053). With sequence parallelism, each rank holds its part of the sequence: all-gather on entry,
reduce-scatter on exit (g and g-bar in Korthikanti et al. 2022, arXiv:2205.05198). Sequence parallelism sends the same
number of bytes, and stores no activation twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from training.parallel.collectives import all_gather, all_reduce, reduce_scatter
from training.parallel.products import linear, matmul

SEQUENCE = 1
"""Dimension of the sequence. Activations are [batch, length, hidden]."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _not_compiled(function: Function) -> Function:
    """Exclude `function` from torch.compile.

    A collective breaks the compiler's graph anyway, and the compiler must not trace the timer's CUDA events.
    """
    return torch.compiler.disable(function)  # type: ignore[no-any-return,no-untyped-call]


class _Copy(torch.autograd.Function):
    """Identity in the forward pass. The backward pass sums the gradient over the tensor-parallel ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        grad = grads[0].clone(memory_format=torch.contiguous_format)
        all_reduce(grad, ctx.group)
        return grad, None


class _Reduce(torch.autograd.Function):
    """Sum over the tensor-parallel ranks in the forward pass. The backward pass is the identity."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        # Reduce a copy, because the input belongs to the graph and must not be changed in place.
        x = x.clone(memory_format=torch.contiguous_format)
        all_reduce(x, group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


class _ReduceScatter(torch.autograd.Function):
    """Sum over the ranks and return this rank's part of the sequence. The backward pass gathers the parts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return reduce_scatter(x, group, SEQUENCE)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return all_gather(grads[0], ctx.group, SEQUENCE), None


class _GatherLinear(torch.autograd.Function):
    """Gather the sequence from the ranks' parts and apply a linear layer.

    Only this rank's part is saved for the backward pass, which gathers the sequence again. Otherwise every rank would
    store the whole sequence.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, group: dist.ProcessGroup
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.group, ctx.has_bias = group, bias is not None
        return linear(all_gather(x, group, SEQUENCE), weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, None]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        grad_x = reduce_scatter(matmul(grad, weight), ctx.group, SEQUENCE)
        rows = grad.reshape(-1, grad.size(-1))
        whole = all_gather(x, ctx.group, SEQUENCE).view(-1, x.size(-1))
        return grad_x, matmul(rows.t(), whole), rows.sum(dim=0) if ctx.has_bias else None, None


class _SumGradients(torch.autograd.Function):
    """Identity. The backward pass sums the gradients of several parameters over the ranks in one fp32 collective."""

    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group = group
        return tuple(parameter.view_as(parameter) for parameter in parameters)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        flat = torch.cat([grad.reshape(-1).float() for grad in grads])
        all_reduce(flat, ctx.group)
        parts = flat.split([grad.numel() for grad in grads])  # type: ignore[no-untyped-call]
        return None, *(part.view_as(grad).to(grad.dtype) for part, grad in zip(parts, grads, strict=True))


@_not_compiled
def copy_to_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Enter a column-parallel region. Return `x` unchanged; the backward pass sums the gradients over the ranks."""
    return _Copy.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def reduce_from_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Leave a row-parallel region. Sum the partial results over the ranks."""
    return _Reduce.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def reduce_scatter_from_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Leave a row-parallel region. Sum the partial results and keep this rank's part of the sequence.

    Shapes: [batch, length, hidden] -> [batch, length / tensor_size, hidden].
    """
    return _ReduceScatter.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def gather_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, group: dist.ProcessGroup
) -> torch.Tensor:
    """Enter a column-parallel region. Gather the sequence and apply this rank's `weight` and `bias`.

    Shapes: [batch, length / tensor_size, in] -> [batch, length, out / tensor_size].
    """
    return _GatherLinear.apply(x, weight, bias, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def sum_gradients(group: dist.ProcessGroup, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return `parameters` unchanged; the backward pass sums their gradients over the ranks.

    Use this for replicated parameters that each rank applies to its part of the sequence. Without it, each rank's
    gradient would cover its own part only.
    """
    return _SumGradients.apply(group, *parameters)  # type: ignore[no-untyped-call,no-any-return]
