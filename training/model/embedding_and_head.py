"""What stands before the first block and behind the last: embeddings, their LayerNorm and the head."""

from __future__ import annotations

import torch
from torch import nn

from bloomery.config.model import ModelConfig
from training.model.norm import LayerNorm
from training.parallel.functions import sum_gradients
from training.parallel.layers import VocabularyParallelEmbedding, vocabulary_parallel_logits
from training.parallel.mesh import Mesh


class Embedding(nn.Module):
    """Token embedding; a tied head uses the same weight. Its LayerNorm is a layer of its own (see the plan)."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.word_embeddings = VocabularyParallelEmbedding(mesh, rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [batch, length] -> [batch, length or this rank's part of it, hidden]."""
        return self.word_embeddings(tokens)  # type: ignore[no-any-return]


def tied_head(embedding: Embedding, x: torch.Tensor) -> torch.Tensor:
    """[batch, length or this rank's part of it, hidden] -> this rank's logits [batch, length, rows / tensor_size]."""
    return vocabulary_parallel_logits(x, embedding.word_embeddings.weight, embedding.mesh)


class Head(nn.Module):
    """An output matrix of its own."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.lm_head = VocabularyParallelEmbedding(mesh, rows, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length or this rank's part of it, hidden] -> logits [batch, length, rows / tensor_size]."""
        return vocabulary_parallel_logits(x, self.lm_head.weight, self.mesh)


class LearnedPositions(nn.Embedding):
    """Adds an embedding of the position."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__(model.sequence_length, model.hidden_size)
        self.mesh = mesh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length or this rank's part of it, hidden] -> the same shape."""
        weight, length, first = self.weight, x.size(1), 0
        if self.mesh.sequence_parallel:
            (weight,) = sum_gradients(self.mesh.tensor_group, weight)
            first = self.mesh.tensor_rank * length
        return x + weight[first : first + length]


class EmbeddingNorm(LayerNorm):
    """LayerNorm of the token embeddings, then learned positions where the model has them (as Megatron-DeepSpeed)."""

    def __init__(self, mesh: Mesh, model: ModelConfig, fused: bool) -> None:
        super().__init__(mesh, model.hidden_size, model.layer_norm_epsilon, fused)
        self.position_embeddings = _positions(mesh, model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """[batch, length or this rank's part of it, hidden] -> the same shape."""
        return self.position_embeddings(super().forward(x))  # type: ignore[no-any-return]


class NoEmbeddingNorm(nn.Module):
    """The same layer of a model without that LayerNorm."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__()
        self.position_embeddings = _positions(mesh, model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length or this rank's part of it, hidden] -> the same shape."""
        return self.position_embeddings(x)  # type: ignore[no-any-return]


def _positions(mesh: Mesh, model: ModelConfig) -> nn.Module:
    return LearnedPositions(mesh, model) if model.positions == "learned" else nn.Identity()
