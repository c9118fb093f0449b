"""Cross-entropy over a vocabulary that is split over the tensor-parallel ranks; the whole logits never exist.

The logits are the greatest tensor of a training: 250,880 for each token of BLOOM. They stay in the type in which they
were computed, and the softmax is computed again in the backward pass instead of being kept. fp32 exists for a few rows
at a time, which a CPU keeps in its cache; on a GPU the compiler makes one kernel of each pass, and it exists nowhere.
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
"""Label of a position that adds nothing to the loss, such as padding."""
_CHUNK_ELEMENTS = {"cpu": 2**18, "cuda": 2**27}
"""fp32 numbers at a time: 1 MB of a core's cache; 512 MB of a GPU's memory where nothing is compiled."""

Pass = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]


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
    """Go through all rows of `logits`; `others` have as many, and the last of them takes the result."""
    if logits.is_cuda and _compiles():
        _compiled(one)(logits, *others)
        return
    step = max(1, _CHUNK_ELEMENTS[logits.device.type] // logits.size(-1))
    for first in range(0, logits.size(0), step):
        rows = slice(first, first + step)
        one(logits[rows], *(other[rows] for other in others))


class _VocabularyParallelCrossEntropy(torch.autograd.Function):
    """Loss per token, fp32 [tokens], from logits [tokens, rows / tensor_size] and labels [tokens]."""

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
        # The label's column is less by one, on the rank that has it; its probability is exp(-loss).
        less_one = ((-loss).expm1() * scale).to(grad.dtype).unsqueeze(-1)
        grad.scatter_(-1, local, torch.where(outside.unsqueeze(-1), grad.gather(-1, local), less_one))
        return grad, None, None, None


def vocabulary_parallel_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, first: int, group: dist.ProcessGroup
) -> torch.Tensor:
    """Loss of a micro-batch (scalar, fp32): the sum over its tokens / their number, ignored ones counted in the number.

    Args:
        logits: [batch, length, rows / tensor_size], any float type; computed in fp32.
        labels: int64 [batch, length]; a negative one, such as `IGNORED`, adds nothing to the sum.
        first: first vocabulary row of this rank.
        group: tensor-parallel group.
    """
    flat = logits.view(-1, logits.size(-1))
    loss: torch.Tensor = _VocabularyParallelCrossEntropy.apply(flat, labels.reshape(-1), first, group)  # type: ignore[no-untyped-call]
    return loss.mean()
