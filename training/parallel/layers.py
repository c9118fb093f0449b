"""Linear and embedding layers whose matrices are split over the tensor-parallel ranks.

Weights are made empty: `training.model.initialize` fills them from the declared parameters, whole and then sliced, so
that the model does not depend on the layout.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from training.parallel.functions import copy_to_tensor_parallel, reduce_from_tensor_parallel
from training.parallel.mesh import Mesh


def _sharded(*shape: int) -> nn.Parameter:
    """A parameter of which each tensor-parallel rank holds another part.

    `model_parallel` is DeepSpeed's mark: without it the shard counts as a replica in the gradient norm.
    """
    parameter = nn.Parameter(torch.empty(*shape))
    parameter.model_parallel = True  # type: ignore[attr-defined]
    return parameter


class ColumnParallelLinear(nn.Module):
    """y = x W^T + b with the rows of W [out, in] (output features) split: [.., in] -> [.., out / tensor_size]."""

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.group = mesh.tensor_group
        self.weight = _sharded(outputs // mesh.tensor_size, inputs)
        self.bias = _sharded(outputs // mesh.tensor_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., in], replicated -> [.., out / tensor_size]."""
        return functional.linear(copy_to_tensor_parallel(x, self.group), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """y = x W^T + b with the columns of W [out, in] (input features) split: [.., in / tensor_size] -> [.., out].

    The bias is replicated and added once, after the sum.
    """

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.group = mesh.tensor_group
        self.weight = _sharded(outputs, inputs // mesh.tensor_size)
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., in / tensor_size] -> [.., out], replicated."""
        return reduce_from_tensor_parallel(functional.linear(x, self.weight), self.group) + self.bias


class VocabularyParallelEmbedding(nn.Module):
    """Embedding whose rows are split: rank r holds tokens [r * n, (r + 1) * n)."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.group = mesh.tensor_group
        self.rows = rows // mesh.tensor_size
        self.first = mesh.tensor_rank * self.rows
        self.split = mesh.tensor_size > 1
        self.weight = _sharded(self.rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [batch, length] -> [batch, length, hidden], replicated."""
        if not self.split:
            return functional.embedding(tokens, self.weight)
        local = tokens - self.first
        outside = (local < 0) | (local >= self.rows)
        found = functional.embedding(local.masked_fill(outside, 0), self.weight)
        return reduce_from_tensor_parallel(found.masked_fill(outside.unsqueeze(-1), 0.0), self.group)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden], replicated -> [batch, length, rows / tensor_size]."""
        return functional.linear(copy_to_tensor_parallel(hidden, self.group), self.weight)


def gather_vocabulary(logits: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """[.., rows / tensor_size] on each rank -> [.., rows] on all. No gradient."""
    size = dist.get_world_size(group)
    parts = [torch.empty_like(logits) for _ in range(size)]
    dist.all_gather(parts, logits.contiguous(), group=group)
    return torch.cat(parts, dim=-1)
