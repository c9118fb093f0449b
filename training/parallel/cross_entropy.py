"""Cross-entropy over a vocabulary that is split over the tensor-parallel ranks. The logits are never gathered.

The logits are the largest tensor of a training: BLOOM has 250,880 logits per token. They keep the data type in which
they were computed, and the backward pass recomputes the softmax instead of storing it. On a CPU, fp32 copies exist only
for a few rows at a time, which fit in the cache. On a GPU where torch can compile, each pass is one kernel without fp32
copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

from bloomery.base import installed
from training.parallel.collectives import all_reduce

IGNORED = -1
"""Label of a position whose loss is 0, such as padding."""
_CHUNK_ELEMENTS = {"cpu": 2**18, "cuda": 2**27}
"""fp32 elements to process at a time: 1 MB of a CPU core's cache, or 512 MB of GPU memory if nothing is compiled."""

Pass = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]
"""A computation on rows of the logits. Its last argument receives the result."""


def _sum_of_exponentials(logits: torch.Tensor, shift: torch.Tensor, _: torch.Tensor, total: torch.Tensor) -> None:
    total.copy_((logits.float() - shift.unsqueeze(-1)).exp_().sum(dim=-1))


def _softmax(logits: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor, grad: torch.Tensor) -> None:
    grad.copy_((logits.float() - shift.unsqueeze(-1)).exp_().mul_(scale.unsqueeze(-1)))


@lru_cache(maxsize=1)
def _compiles() -> bool:
    return installed.compiles_for_gpu()


@lru_cache(maxsize=2)
def _compiled(one: Pass) -> Pass:
    return torch.compile(one)


def _over_rows(one: Pass, logits: torch.Tensor, *others: torch.Tensor) -> None:
    """Apply `one` to all rows of `logits` and `others`. The last tensor of `others` receives the result.

    All tensors have the same number of rows.
    """
    if logits.is_cuda and _compiles():
        _compiled(one)(logits, *others)
        return
    step = max(1, _CHUNK_ELEMENTS[logits.device.type] // logits.size(-1))
    for first in range(0, logits.size(0), step):
        rows = slice(first, first + step)
        one(logits[rows], *(other[rows] for other in others))


class _VocabularyParallelCrossEntropy(torch.autograd.Function):
    """Compute the loss per token, fp32 [tokens], from logits [tokens, rows / tensor_size] and labels [tokens]."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, labels: torch.Tensor, first: int, group: dist.ProcessGroup
    ) -> torch.Tensor:
        greatest = logits.amax(dim=-1).float()
        split = dist.get_world_size(group) > 1
        if split:
            all_reduce(greatest, group, dist.ReduceOp.MAX)
        local = labels - first
        outside = (local < 0) | (local >= logits.size(-1))
        local = local.masked_fill(outside, 0).unsqueeze(-1)
        target = (logits.gather(-1, local).squeeze(-1).float() - greatest).masked_fill(outside, 0.0)
        total = torch.empty_like(target)
        _over_rows(_sum_of_exponentials, logits, greatest, greatest, total)
        if split:
            both = torch.stack((target, total))
            all_reduce(both, group)
            target, total = both[0], both[1]
        ignored, loss = labels < 0, total.log() - target
        ctx.save_for_backward(logits, greatest + total.log(), loss, local, outside, ignored)
        return loss.masked_fill(ignored, 0.0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        logits, logarithm, loss, local, outside, ignored = ctx.saved_tensors
        scale, grad = grads[0].masked_fill(ignored, 0.0), torch.empty_like(logits)
        _over_rows(_softmax, logits, logarithm, scale, grad)
        # The gradient in the label's column is (probability - 1) x scale, and the probability is exp(-loss). Only the
        # rank that holds the column writes it.
        less_one = ((-loss).expm1() * scale).to(grad.dtype).unsqueeze(-1)
        grad.scatter_(-1, local, torch.where(outside.unsqueeze(-1), grad.gather(-1, local), less_one))
        return grad, None, None, None


def vocabulary_parallel_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, first: int, group: dist.ProcessGroup
) -> torch.Tensor:
    """Return the loss of a micro-batch, an fp32 scalar.

    The loss is the sum over all tokens divided by the number of all tokens. Ignored tokens add 0 to the sum, but they
    are counted.

    Args:
        logits: logits of any float type, [batch, length, rows / tensor_size]. The loss is computed in fp32.
        labels: int64 [batch, length]. Positions with a negative label, such as `IGNORED`, are ignored.
        first: first vocabulary row of this rank.
        group: tensor-parallel group.
    """
    flat = logits.view(-1, logits.size(-1))
    loss: torch.Tensor = _VocabularyParallelCrossEntropy.apply(flat, labels.reshape(-1), first, group)  # type: ignore[no-untyped-call]
    return loss.mean()
