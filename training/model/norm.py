"""LayerNorm: torch's, or FusedLayerNorm of NVIDIA's apex; the same parameters under the same names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from training.parallel.functions import sum_gradients
from training.parallel.mesh import Mesh


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the last dimension, computed in fp32 inside.

    With sequence parallelism each rank normalises its part of the sequence: the gradients are summed over the ranks,
    here or, for several layers at once, by the block that hands over what `sum_gradients` made of the parameters.
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
        """[.., hidden] -> [.., hidden]."""
        if weight is None:
            weight, bias = self.weight, self.bias
            if self.mesh.sequence_parallel:
                weight, bias = sum_gradients(self.mesh.tensor_group, weight, bias)
        if self.kernel is not None:
            return self.kernel(x, weight, bias, self.normalized_shape, self.eps)  # type: ignore[no-any-return]
        return functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)
