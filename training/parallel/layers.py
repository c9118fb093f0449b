"""Linear and embedding layers whose matrices are split over the tensor-parallel ranks.

Weights are created uninitialized. A checkpoint is loaded into them, or `training.model.initialize` draws this rank's
shard of each declared parameter. In both cases, the model does not depend on the layout.
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
from training.parallel.products import linear


def _sharded(*shape: int) -> nn.Parameter:
    """Create a parameter of which each tensor-parallel rank holds a different part.

    DeepSpeed reads the attribute `model_parallel`. Without it, DeepSpeed's gradient norm would treat the shards as
    replicas.
    """
    parameter = nn.Parameter(torch.empty(*shape))
    parameter.model_parallel = True  # type: ignore[attr-defined]
    return parameter


def _column(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, mesh: Mesh) -> torch.Tensor:
    """Enter the tensor-parallel region and apply this rank's rows of the weight."""
    if mesh.sequence_parallel:
        return gather_linear(x, weight, bias, mesh.tensor_group)
    if mesh.tensor_size > 1:
        x = copy_to_tensor_parallel(x, mesh.tensor_group)
    return linear(x, weight, bias)


def _leave(partial: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Sum the partial results over the ranks. With sequence parallelism, keep this rank's part of the sequence."""
    if mesh.sequence_parallel:
        return reduce_scatter_from_tensor_parallel(partial, mesh.tensor_group)
    return reduce_from_tensor_parallel(partial, mesh.tensor_group)


class ColumnParallelLinear(nn.Module):
    """Linear layer y = x W^T + b. The rows of W [out, in] (output features) are split over the ranks.

    Shapes: [.., in] -> [.., out / tensor_size].
    """

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.weight = _sharded(outputs // mesh.tensor_size, inputs)
        self.bias = _sharded(outputs // mesh.tensor_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layer: [batch, length, in] -> [batch, length, out / tensor_size].

        With sequence parallelism, the input holds only this rank's part of the sequence.
        """
        return _column(x, self.weight, self.bias, self.mesh)


class RowParallelLinear(nn.Module):
    """Linear layer y = x W^T + b. The columns of W [out, in] (input features) are split over the ranks.

    Shapes: [.., in / tensor_size] -> [.., out]. The bias is replicated, and it is added once, after the sum over the
    ranks.
    """

    def __init__(self, mesh: Mesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.weight = _sharded(outputs, inputs // mesh.tensor_size)
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Apply the layer: [batch, length, in / tensor_size] -> [batch, length, out].

        `bias` is this layer's bias. With sequence parallelism, the output holds only this rank's part of the sequence.
        `bias` must then be a result of `sum_gradients`, because each rank has only the gradient of its own part.
        """
        if self.mesh.tensor_size == 1:
            return linear(x, self.weight, bias)
        return _leave(linear(x, self.weight), self.mesh) + bias


class VocabularyParallelEmbedding(nn.Module):
    """Embedding whose rows are split over the ranks. With n rows per rank, rank r holds tokens [r * n, (r + 1) * n)."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.rows = rows // mesh.tensor_size
        self.first = mesh.tensor_rank * self.rows
        self.weight = _sharded(self.rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up tokens: int64 [batch, length] -> [batch, length, hidden].

        With sequence parallelism, the output holds only this rank's part of the sequence.
        """
        if self.mesh.tensor_size == 1:
            return functional.embedding(tokens, self.weight)
        local = tokens - self.first
        outside = (local < 0) | (local >= self.rows)
        found = functional.embedding(local.masked_fill(outside, 0), self.weight)
        return _leave(found.masked_fill(outside.unsqueeze(-1), 0.0), self.mesh)


def vocabulary_parallel_logits(x: torch.Tensor, weight: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Compute this rank's logits: [batch, length, hidden] -> [batch, length, rows / tensor_size].

    With sequence parallelism, the input holds only this rank's part of the sequence. `weight` [rows / tensor_size,
    hidden] is the head's weight, which is the embedding's weight if the head is tied.
    """
    return _column(x, weight, None, mesh)


def gather_vocabulary(logits: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Gather logits over the vocabulary on every rank: [.., rows / tensor_size] -> [.., rows].

    The result has no gradient.
    """
    return all_gather(logits, group, -1)
