"""Causal self-attention over this rank's heads. As in BLOOM, query, key and value share one matrix, ordered by head."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import nn

from bloomery.config.model import ModelConfig
from training.model.attention.back_ends import back_end
from training.model.attention.heads import Heads
from training.model.dropout import Place, drop
from training.model.rotary import rotation
from training.model.split_heads import split_heads
from training.parallel.layers import ColumnParallelLinear, RowParallelLinear
from training.parallel.mesh import Mesh


class SelfAttention(nn.Module):
    """Self-attention layer. The rows of `query_key_value` are ordered [head, (query, key, value), head_dim].

    Stable attention scales both queries and keys by head_dim^(-1/4) before their product (PR 118 of BigScience's
    Megatron-DeepSpeed), because the product of unscaled values can overflow fp16.
    """

    def __init__(self, mesh: Mesh, model: ModelConfig, attention: str, threshold: int = 0) -> None:
        """Create the layer with the back end `attention`. `threshold` is that of dropout (`training.model.dropout`)."""
        super().__init__()
        self.threshold = threshold
        self.head_dim = model.head_size
        self.query_key_value = ColumnParallelLinear(mesh, model.hidden_size, 3 * model.hidden_size)
        self.dense = RowParallelLinear(mesh, model.hidden_size, model.hidden_size)
        local, scale = model.heads // mesh.tensor_size, 1.0 / math.sqrt(self.head_dim)
        self.rotary_base = model.rotary_base if model.positions == "rotary" else None
        self.scale_before = math.sqrt(scale) if model.stable_attention else 1.0
        self.first_head = mesh.tensor_rank * local
        self.attend = back_end(
            attention,
            Heads(
                total=model.heads,
                first=self.first_head,
                local=local,
                scale=1.0 if model.stable_attention else scale,
                alibi=model.positions == "alibi",
            ),
        )

    def forward(self, x: torch.Tensor, bias: torch.Tensor, numbers: torch.Tensor | None = None) -> torch.Tensor:
        """Apply attention: [batch, length, hidden] -> the same shape. `bias` is the bias of the output matrix.

        With sequence parallelism, input and output hold only this rank's part of the sequence. `numbers` are the
        layer's numbers for dropout (`DropoutNumbers.of_layer`).
        """
        # With sequence parallelism, `query_key_value` gathers the whole sequence for this rank's heads.
        fused = self.query_key_value(x).unflatten(-1, (-1, 3, self.head_dim))
        turn = None
        if self.rotary_base is not None:
            length, base = fused.size(1), self.rotary_base
            turn = rotation(length, self.head_dim, base, self.scale_before, x.dtype, x.device)
        parts = split_heads(fused, self.scale_before, turn)
        if numbers is None or self.threshold == 0:
            mixed = self.attend(*parts)
        else:
            length = fused.size(1)
            first, place = self.first_head * length**2, Place.ATTENTION
            mixed = self.attend(
                *parts,
                partial(drop, numbers=numbers, place=place, threshold=self.threshold, first=first, causal=length),
            )
        return self.dense(mixed.flatten(-2), bias)  # type: ignore[no-any-return]
