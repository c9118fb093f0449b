"""Where activations enter and leave a tensor-parallel region; forward and backward are each other's conjugates.

Without sequence parallelism (Shoeybi et al. 2019, arXiv:1909.08053, f and g) activations outside of a region are
replicated: identity in, all-reduce out. With it (Korthikanti et al. 2022, arXiv:2205.05198, g and g-bar) each rank
holds its part of the sequence: all-gather in, reduce-scatter out; the same bytes travel, no activation is held twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.nn import functional

from training.parallel.collectives import all_gather, all_reduce, reduce_scatter

SEQUENCE = 1
"""Dimension of the sequence: activations are [batch, length, hidden]."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _not_compiled(function: Function) -> Function:
    """A collective ends the compiler's graph, and its clock is left alone: the compiler takes up events of a GPU."""
    return torch.compiler.disable(function)  # type: ignore[no-any-return,no-untyped-call]


class _Copy(torch.autograd.Function):
    """Identity forward; backward sums the gradient over the tensor-parallel ranks."""

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
    """Sum over the tensor-parallel ranks forward; identity backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        # Into a fresh tensor: the input belongs to the graph.
        x = x.clone(memory_format=torch.contiguous_format)
        all_reduce(x, group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


class _ReduceScatter(torch.autograd.Function):
    """This rank's part of the sequence of the sum over the ranks; backward gathers the parts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return reduce_scatter(x, group, SEQUENCE)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return all_gather(grads[0], ctx.group, SEQUENCE), None


class _GatherLinear(torch.autograd.Function):
    """Linear layer over the whole sequence from this rank's part of it.

    It saves the part alone and gathers the sequence again in the backward pass: whole, each rank would hold it.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, group: dist.ProcessGroup
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.group, ctx.has_bias = group, bias is not None
        return functional.linear(all_gather(x, group, SEQUENCE), weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, None]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        grad_x = reduce_scatter(grad @ weight, ctx.group, SEQUENCE)
        rows = grad.reshape(-1, grad.size(-1))
        whole = all_gather(x, ctx.group, SEQUENCE).view(-1, x.size(-1))
        return grad_x, rows.t() @ whole, rows.sum(dim=0) if ctx.has_bias else None, None


class _SumGradients(torch.autograd.Function):
    """Identity; backward sums the gradients of several parameters over the ranks, in fp32 and in one collective."""

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
    """Enter a column-parallel region: the same values on each rank, gradients summed on the way back."""
    return _Copy.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def reduce_from_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Leave a row-parallel region: partial results summed over the ranks."""
    return _Reduce.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def reduce_scatter_from_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Leave a row-parallel region: [batch, length, hidden] partial -> [batch, length / size, hidden] summed."""
    return _ReduceScatter.apply(x, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def gather_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, group: dist.ProcessGroup
) -> torch.Tensor:
    """Enter a column-parallel region: [batch, length / size, in] -> [batch, length, out] of this rank's `weight`."""
    return _GatherLinear.apply(x, weight, bias, group)  # type: ignore[no-untyped-call,no-any-return]


@_not_compiled
def sum_gradients(group: dist.ProcessGroup, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Replicated parameters that each rank applies to its part of the sequence: their gradients are partial sums."""
    return _SumGradients.apply(group, *parameters)  # type: ignore[no-untyped-call,no-any-return]
