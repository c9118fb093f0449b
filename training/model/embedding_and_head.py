"""The layers before the first block and after the last block: embeddings, their LayerNorm, and the head."""

from __future__ import annotations

import torch
from torch import nn

from bloomery.config.model import ModelConfig
from training.model.dropout import DropoutNumbers, Place, drop_activation
from training.model.norm import LayerNorm
from training.parallel.functions import sum_gradients
from training.parallel.layers import VocabularyParallelEmbedding, vocabulary_parallel_logits
from training.parallel.mesh import Mesh


class Embedding(nn.Module):
    """Token embedding. A tied head uses the same weight. The embedding's LayerNorm is a separate pipeline layer."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.word_embeddings = VocabularyParallelEmbedding(mesh, rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up tokens: int64 [batch, length] -> [batch, length, hidden].

        With sequence parallelism, the output holds only this rank's part of the sequence.
        """
        return self.word_embeddings(tokens)  # type: ignore[no-any-return]


def tied_head(embedding: Embedding, x: torch.Tensor) -> torch.Tensor:
    """Compute this rank's logits with the embedding's weight: [batch, length, hidden] -> [batch, length, local rows].

    With sequence parallelism, the input holds only this rank's part of the sequence. The number of local rows is
    rows / tensor_size.
    """
    return vocabulary_parallel_logits(x, embedding.word_embeddings.weight, embedding.mesh)


class Head(nn.Module):
    """Head with its own output matrix, for a model without tied embeddings."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.mesh = mesh
        self.lm_head = VocabularyParallelEmbedding(mesh, rows, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute this rank's logits: [batch, length, hidden] -> [batch, length, rows / tensor_size].

        With sequence parallelism, the input holds only this rank's part of the sequence.
        """
        return vocabulary_parallel_logits(x, self.lm_head.weight, self.mesh)


class LearnedPositions(nn.Embedding):
    """Layer that adds a learned position embedding."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        # Without `_weight`, torch would draw values that `training.model.initialize` or a checkpoint overwrites.
        weight = torch.empty(model.sequence_length, model.hidden_size)
        super().__init__(model.sequence_length, model.hidden_size, _weight=weight)
        self.mesh = mesh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the position embeddings: [batch, length, hidden] -> the same shape.

        With sequence parallelism, input and output hold only this rank's part of the sequence.
        """
        weight, length, first = self.weight, x.size(1), 0
        if self.mesh.sequence_parallel:
            (weight,) = sum_gradients(self.mesh.tensor_group, weight)
            first = self.mesh.tensor_rank * length
        return x + weight[first : first + length]


class EmbeddingNorm(LayerNorm):
    """LayerNorm of the token embeddings, then learned positions if the model has them (as in Megatron-DeepSpeed).

    Dropout comes last.
    """

    def __init__(self, mesh: Mesh, model: ModelConfig, fused: bool, layer: int, dropout: DropoutNumbers) -> None:
        """Create pipeline layer number `layer`. `dropout` holds the numbers that decide what is dropped."""
        super().__init__(mesh, model.hidden_size, model.layer_norm_epsilon, fused)
        self.position_embeddings = _positions(mesh, model)
        self.layer, self.dropout = layer, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Apply LayerNorm, positions and dropout: [batch, length, hidden] -> the same shape.

        With sequence parallelism, input and output hold only this rank's part of the sequence.
        """
        x = self.position_embeddings(super().forward(x))
        return _drop(x, self.layer, self.dropout, self.mesh)


class NoEmbeddingNorm(nn.Module):
    """Pipeline layer that replaces `EmbeddingNorm` in a model without an embedding LayerNorm."""

    def __init__(self, mesh: Mesh, model: ModelConfig, layer: int, dropout: DropoutNumbers) -> None:
        """Create pipeline layer number `layer`. `dropout` holds the numbers that decide what is dropped."""
        super().__init__()
        self.position_embeddings = _positions(mesh, model)
        self.mesh, self.layer, self.dropout = mesh, layer, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add learned positions if the model has them, and apply dropout: [batch, length, hidden] -> the same shape.

        With sequence parallelism, input and output hold only this rank's part of the sequence.
        """
        return _drop(self.position_embeddings(x), self.layer, self.dropout, self.mesh)


def _positions(mesh: Mesh, model: ModelConfig) -> nn.Module:
    return LearnedPositions(mesh, model) if model.positions == "learned" else nn.Identity()


def _drop(x: torch.Tensor, layer: int, dropout: DropoutNumbers, mesh: Mesh) -> torch.Tensor:
    return drop_activation(x, dropout.of_layer(layer), Place.EMBEDDING, dropout.hidden, mesh)
