"""One transformer block of BLOOM: pre-LayerNorm, fused query-key-value per head, tanh GELU, biases everywhere."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from bloomery.config.model import ModelConfig
from training.model.alibi import attention_bias
from training.parallel.layers import ColumnParallelLinear, RowParallelLinear
from training.parallel.mesh import Mesh


class SelfAttention(nn.Module):
    """Causal attention with ALiBi over this rank's heads."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__()
        hidden = model.hidden_size
        self.heads = model.heads
        self.local_heads = model.heads // mesh.tensor_size
        self.first_head = mesh.tensor_rank * self.local_heads
        self.head_dim = hidden // model.heads
        self.query_key_value = ColumnParallelLinear(mesh, hidden, 3 * hidden)
        self.dense = RowParallelLinear(mesh, hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden] -> [batch, length, hidden]."""
        batch, length, _ = x.shape
        fused = self.query_key_value(x).view(batch, length, self.local_heads, 3, self.head_dim)
        query, key, value = (part.transpose(1, 2) for part in fused.unbind(dim=3))
        bias = attention_bias(self.heads, self.first_head, self.local_heads, length, x.dtype, x.device)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.dense(mixed.transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """hidden -> 4 hidden -> hidden with the tanh form of GELU."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__()
        self.dense_h_to_4h = ColumnParallelLinear(mesh, model.hidden_size, model.ffn_size)
        self.dense_4h_to_h = RowParallelLinear(mesh, model.ffn_size, model.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden] -> [batch, length, hidden]."""
        return self.dense_4h_to_h(functional.gelu(self.dense_h_to_4h(x), approximate="tanh"))  # type: ignore[no-any-return]


class TransformerBlock(nn.Module):
    """x + attention(LN(x)), then x + feed-forward(LN(x))."""

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(model.hidden_size, eps=model.layer_norm_epsilon)
        self.self_attention = SelfAttention(mesh, model)
        self.post_attention_layernorm = nn.LayerNorm(model.hidden_size, eps=model.layer_norm_epsilon)
        self.mlp = FeedForward(mesh, model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden] -> [batch, length, hidden]."""
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]
