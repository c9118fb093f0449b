"""Linear and embedding layers whose matrices are split over the tensor-parallel ranks.

Weights are made empty: `training.model.initialize` fills them from the declared parameters, whole and then sliced, so
that the model does not depend on the layout.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from training.parallel.collectives import all_gather
from training.parallel.functions import (
    copy_to_tensor_parallel,
    gather_linear,
    reduce_from_tensor_parallel,
    reduce_scatter_from_tensor_parallel,
)
from training.parallel.mesh import Mesh


def _sharded(*shape: int) -> nn.Parameter:
    """A parameter of which each tensor-parallel rank holds another part.

    `model_parallel` is DeepSpeed's mark: without it the shard counts as a replica in the gradient norm.
    """
    parameter = nn.Parameter(torch.empty(*shape))
    parameter.model_parallel = True  # type: ignore[attr-defined]
    return parameter


def _column(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, mesh: Mesh) -> torch.Tensor:
    if mesh.sequence_parallel:
        return gather_linear(x, weight, bias, mesh.tensor_group)
    if mesh.tensor_size > 1:
        x = copy_to_tensor_parallel(x, mesh.tensor_group)
    return functional.linear(x, weight, bias)


def _leave(partial: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    if mesh.sequence_parallel:
        return reduce_scatter_from_tensor_parallel(partial, mesh.tensor_group)
    return reduce_from_tensor_parallel(partial, mesh.tensor_group)


class ColumnParallelLinear(nn.Module):
    """y = x W^T + b with the rows of W [out, in] (output features) split: [.., in] -> [.., out / tensor_size]."""

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.weight = _sharded(outputs // mesh.tensor_size, inputs)
        self.bias = _sharded(outputs // mesh.tensor_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length or this rank's part of it, in] -> [batch, length, out / tensor_size]."""
        return _column(x, self.weight, self.bias, self.mesh)


class RowParallelLinear(nn.Module):
    """y = x W^T + b with the columns of W [out, in] (input features) split: [.., in / tensor_size] -> [.., out].

    The bias is replicated and added once, after the sum.
    """

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.weight = _sharded(outputs, inputs // mesh.tensor_size)
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """[batch, length, in / tensor_size] -> [batch, length or this rank's part of it, out].

        `bias` is this layer's own, or what `sum_gradients` made of it.
        """
        if self.mesh.tensor_size == 1:
            return functional.linear(x, self.weight, bias)
        return _leave(functional.linear(x, self.weight), self.mesh) + bias


class VocabularyParallelEmbedding(nn.Module):
    """Embedding whose rows are split: rank r holds tokens [r * n, (r + 1) * n)."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.rows = rows // mesh.tensor_size
        self.first = mesh.tensor_rank * self.rows
        self.weight = _sharded(self.rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [batch, length] -> [batch, length or this rank's part of it, hidden]."""
        if self.mesh.tensor_size == 1:
            return functional.embedding(tokens, self.weight)
        local = tokens - self.first
        outside = (local < 0) | (local >= self.rows)
        found = functional.embedding(local.masked_fill(outside, 0), self.weight)
        return _leave(found.masked_fill(outside.unsqueeze(-1), 0.0), self.mesh)


def vocabulary_parallel_logits(x: torch.Tensor, weight: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """[batch, length or this rank's part of it, hidden] -> [batch, length, rows / tensor_size].

    `weight` [rows / tensor_size, hidden] is the head's: the embedding's where they are tied.
    """
    return _column(x, weight, None, mesh)


def gather_vocabulary(logits: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """[.., rows / tensor_size] on each rank -> [.., rows] on all. No gradient."""
    return all_gather(logits, group, -1)
