"""Cross-entropy over a vocabulary that is split over the tensor-parallel ranks; the whole logits never exist."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class _VocabularyParallelCrossEntropy(torch.autograd.Function):
    """Loss per token [tokens] from fp32 logits [tokens, rows / tensor_size] and labels [tokens]."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, labels: torch.Tensor, first: int, group: dist.ProcessGroup
    ) -> torch.Tensor:
        split = dist.get_world_size(group) > 1
        greatest = logits.max(dim=-1).values
        if split:
            dist.all_reduce(greatest, op=dist.ReduceOp.MAX, group=group)
        shifted = logits - greatest.unsqueeze(-1)
        local = labels - first
        outside = (local < 0) | (local >= logits.size(-1))
        local = local.masked_fill(outside, 0)
        target = shifted.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(outside, 0.0)
        exponentials = shifted.exp_()
        total = exponentials.sum(dim=-1)
        if split:
            both = torch.stack((target, total))
            dist.all_reduce(both, group=group)
            target, total = both[0], both[1]
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), local, outside)
        return total.log() - target

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        probabilities, local, outside = ctx.saved_tensors
        grad = probabilities.clone()
        grad.scatter_add_(-1, local.unsqueeze(-1), -(~outside).to(grad.dtype).unsqueeze(-1))
        return grad.mul_(grads[0].unsqueeze(-1)), None, None, None


def vocabulary_parallel_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, first: int, group: dist.ProcessGroup
) -> torch.Tensor:
    """Mean loss (scalar, fp32) of a micro-batch.

    Args:
        logits: [batch, length, rows / tensor_size], any float type; computed in fp32.
        labels: int64 [batch, length].
        first: first vocabulary row of this rank.
        group: tensor-parallel group.
    """
    flat = logits.float().view(-1, logits.size(-1))
    loss: torch.Tensor = _VocabularyParallelCrossEntropy.apply(flat, labels.reshape(-1), first, group)  # type: ignore[no-untyped-call]
    return loss.mean()
