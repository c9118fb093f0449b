"""The feed-forward layer, with tanh GELU as in BLOOM or with SwiGLU (Shazeer 2020, arXiv:2002.05202)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bloomery.config.model import ModelConfig
from training.parallel.layers import ColumnParallelLinear, RowParallelLinear
from training.parallel.mesh import Mesh


class _Gate(torch.autograd.Function):
    """Compute silu(gate) * up from [.., features, (gate, up)].

    Only the input is saved for the backward pass, which recomputes SiLU.
    """

    @staticmethod
    def forward(ctx: Any, pairs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(pairs)
        gate, up = pairs.unbind(dim=-1)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (pairs,) = ctx.saved_tensors
        gate, up = pairs.unbind(dim=-1)
        of_gate = torch.ops.aten.silu_backward(grads[0] * up, gate)
        return torch.stack((of_gate, grads[0] * functional.silu(gate)), dim=-1)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """Apply SwiGLU: [.., 2 * features] -> [.., features]. In the input, each feature's (gate, up) pair is adjacent."""
    return _Gate.apply(x.unflatten(-1, (-1, 2)))  # type: ignore[no-untyped-call,no-any-return]


class FeedForward(nn.Module):
    """Feed-forward layer: hidden_size -> ffn_size -> hidden_size.

    With SwiGLU, the first matrix has two adjacent rows per feature, [gate, up]. So a tensor-parallel slice keeps the
    pairs together.
    """

    def __init__(self, mesh: Mesh, model: ModelConfig) -> None:
        super().__init__()
        self.gated = model.activation == "swiglu"
        self.dense_h_to_4h = ColumnParallelLinear(mesh, model.hidden_size, model.ffn_size * (2 if self.gated else 1))
        self.dense_4h_to_h = RowParallelLinear(mesh, model.ffn_size, model.hidden_size)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Apply the layer: [batch, length, hidden] -> the same shape. `bias` is the bias of the second matrix."""
        x = self.dense_h_to_4h(x)
        x = swiglu(x) if self.gated else functional.gelu(x, approximate="tanh")
        return self.dense_4h_to_h(x, bias)  # type: ignore[no-any-return]
