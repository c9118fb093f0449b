"""One transformer block with pre-LayerNorm, self-attention and a feed-forward layer. All linear layers have biases."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.spec.choose_kernels import Kernels
from training.model.dropout import DropoutNumbers, Place, drop_activation
from training.model.feed_forward import FeedForward
from training.model.norm import LayerNorm
from training.model.recompute import Forward, recomputed
from training.model.self_attention import SelfAttention
from training.parallel.functions import sum_gradients
from training.parallel.mesh import Mesh


class TransformerBlock(nn.Module):
    """Transformer block: x = x + dropout(attention(LN(x))), then x = x + dropout(feed_forward(LN(x)))."""

    def __init__(
        self,
        mesh: Mesh,
        model: ModelConfig,
        training: TrainingConfig,
        kernels: Kernels,
        layer: int,
        dropout: DropoutNumbers,
    ) -> None:
        """Create the block.

        Args:
            mesh: mesh of the layout.
            model: network.
            training: configuration of the training.
            kernels: chosen kernels.
            layer: number of the pipeline layer.
            dropout: numbers that decide what is dropped.
        """
        super().__init__()
        self.layer, self.dropout, self.threshold = layer, dropout, dropout.hidden
        hidden, epsilon, fused = model.hidden_size, model.layer_norm_epsilon, kernels.layer_norm == "apex"
        self.mesh = mesh
        self.input_layernorm = LayerNorm(mesh, hidden, epsilon, fused)
        self.self_attention = SelfAttention(mesh, model, kernels.attention, dropout.attention)
        self.post_attention_layernorm = LayerNorm(mesh, hidden, epsilon, fused)
        self.mlp = FeedForward(mesh, model)
        # Compile each sequence length separately, because tensors such as ALiBi's bias are constants in compiled code.
        compiled = partial(torch.compile, dynamic=False) if training.kernels.compile else _as_it_is
        what = training.activation_checkpointing
        if mesh.tensor_size == 1:
            self._run = compiled(recomputed(self._once, what))
        else:
            # Recompute outside of the compiled code: collectives break the compiler's graph, which is not allowed in a
            # recomputed region. Do not compile with `selective`, which would store results in buffers of the compiled
            # code. The compiled code reuses these buffers and would overwrite the stored results.
            self._run = recomputed(self._once if what == "selective" else compiled(self._once), what)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the block: [batch, length, hidden] -> the same shape.

        With sequence parallelism, input and output hold only this rank's part of the sequence.
        """
        return self._run(x, self.dropout.of_layer(self.layer))

    def _once(self, x: torch.Tensor, numbers: torch.Tensor | None) -> torch.Tensor:
        """Compute the block without recomputation and without torch.compile.

        `numbers` is an argument, because during a recomputation `self.dropout` holds those of a later micro-batch.
        """
        replicated: tuple[torch.Tensor, ...] = (
            self.input_layernorm.weight,
            self.input_layernorm.bias,
            self.self_attention.dense.bias,
            self.post_attention_layernorm.weight,
            self.post_attention_layernorm.bias,
            self.mlp.dense_4h_to_h.bias,
        )
        if self.mesh.sequence_parallel:
            replicated = sum_gradients(self.mesh.tensor_group, *replicated)
        weight, bias, dense, second_weight, second_bias, last = replicated
        attended = self.self_attention(self.input_layernorm(x, weight, bias), dense, numbers)
        x = x + drop_activation(attended, numbers, Place.AFTER_ATTENTION, self.threshold, self.mesh)
        fed = self.mlp(self.post_attention_layernorm(x, second_weight, second_bias), last)
        return x + drop_activation(fed, numbers, Place.AFTER_FEED_FORWARD, self.threshold, self.mesh)


def _as_it_is(forward: Forward) -> Forward:
    """Return `forward` unchanged. It replaces torch.compile if compilation is off."""
    return forward
