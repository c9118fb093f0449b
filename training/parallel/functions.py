"""The two conjugate functions of tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053, f and g)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class _Copy(torch.autograd.Function):
    """Identity forward; backward sums the gradient over the tensor-parallel ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        grad = grads[0].contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class _Reduce(torch.autograd.Function):
    """Sum over the tensor-parallel ranks forward; identity backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        # Into a fresh tensor: the input belongs to the graph.
        x = x.contiguous().clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


def copy_to_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Enter a column-parallel region: the same values on each rank, gradients summed on the way back."""
    return x if dist.get_world_size(group) == 1 else _Copy.apply(x, group)  # type: ignore[no-untyped-call]


def reduce_from_tensor_parallel(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Leave a row-parallel region: partial results summed over the ranks."""
    return x if dist.get_world_size(group) == 1 else _Reduce.apply(x, group)  # type: ignore[no-untyped-call]
