"""LayerNorm, computed by torch or by the fused kernel of NVIDIA's apex. Both have the same parameters and names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from training.parallel.functions import sum_gradients
from training.parallel.mesh import Mesh


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the last dimension, computed in fp32 internally.

    With sequence parallelism, each rank normalises its part of the sequence, so the gradients of the parameters must be
    summed over the ranks. `forward` does this, unless the caller passes results of `sum_gradients` as parameters. A
    block passes them to sum the gradients of several layers at once.
    """

    def __init__(self, mesh: Mesh, hidden: int, epsilon: float, fused: bool) -> None:
        super().__init__(hidden, eps=epsilon)
        self.mesh = mesh
        self.kernel: Any = None
        if fused:
            from apex.normalization.fused_layer_norm import fused_layer_norm_affine

            self.kernel = fused_layer_norm_affine

    def forward(
        self, x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise the last dimension: [.., hidden] -> [.., hidden].

        `weight` and `bias` replace the layer's own parameters. With sequence parallelism, they must be results of
        `sum_gradients`. None selects the layer's own parameters.
        """
        if weight is None:
            weight, bias = self.weight, self.bias
            if self.mesh.sequence_parallel:
                weight, bias = sum_gradients(self.mesh.tensor_group, weight, bias)
        if self.kernel is not None:
            return self.kernel(x, weight, bias, self.normalized_shape, self.eps)  # type: ignore[no-any-return]
        return functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)
