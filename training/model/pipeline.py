"""The network as a DeepSpeed pipeline of layers, split into stages by `bloomery.spec.partition`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from torch import nn

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.spec.choose_kernels import Kernels
from bloomery.spec.parameters import layer_count
from bloomery.spec.partition import stage_bounds
from training.model.block import TransformerBlock
from training.model.dropout import DropoutNumbers
from training.model.embedding_and_head import Embedding, EmbeddingNorm, Head, NoEmbeddingNorm, tied_head
from training.model.kernels import compile_each_shape, kernels_here
from training.model.norm import LayerNorm
from training.parallel.cross_entropy import vocabulary_parallel_cross_entropy
from training.parallel.mesh import Mesh


class BloomPipeline(PipelineModule):  # type: ignore[misc]
    """PipelineModule that uses the stage bounds of `bloomery.spec.partition` instead of DeepSpeed's partitioning."""

    def __init__(self, mesh: Mesh, model: ModelConfig, training: TrainingConfig, vocabulary_rows: int) -> None:
        self._bounds = stage_bounds(model, vocabulary_rows, mesh.parallel.pipeline, training.partition)
        self._mesh, self._hidden = mesh, model.hidden_size
        self.kernels = kernels_here(model, training, mesh.device)
        self.dropout = DropoutNumbers(training.dropout, mesh.device)
        layers = _layers(mesh, model, training, vocabulary_rows, self.kernels, self.dropout)
        assert len(layers) == layer_count(model)
        first_row = mesh.tensor_rank * (vocabulary_rows // mesh.tensor_size)

        # Rows from this one on are masked on this rank.
        own_rows = max(0, vocabulary_rows - model.masked_rows - first_row)

        def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            if own_rows < logits.size(-1):
                # The probability and the gradient of these rows are exactly 0. The logits are overwritten, because a
                # copy of them would be the largest tensor of the training.
                logits[..., own_rows:] = -torch.inf
            return vocabulary_parallel_cross_entropy(logits, labels, first_row, mesh.tensor_group)

        # DeepSpeed prints its layer list to stdout, which is reserved for data. Activation checkpointing is off here,
        # because the blocks recompute activations themselves.
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(layers, topology=mesh.topology, loss_fn=loss, activation_checkpoint_interval=0)

    def forward(self, forward_input: torch.Tensor) -> torch.Tensor:
        """Compute this stage's output for the next micro-batch."""
        if self.training:
            self.dropout.next_micro_batch()
        return super().forward(forward_input)  # type: ignore[no-any-return]

    def _partition_layers(self, method: str = "") -> None:
        self.parts = list(self._bounds)
        self._set_bounds(self.parts[self.stage_id], self.parts[self.stage_id + 1])

    @torch.no_grad()
    def _synchronize_tied_weights(self) -> None:
        # DeepSpeed broadcasts the parameter with gradients enabled. Without no_grad, autograd would warn about
        # "c10d::broadcast_" in each backward pass.
        super()._synchronize_tied_weights()

    def boundary_shape(self, batch: int, length: int) -> tuple[int, int, int]:
        """Return the shape of the activations sent between two stages, for a micro-batch of tokens [batch, length]."""
        parts = self._mesh.tensor_size if self._mesh.sequence_parallel else 1
        return batch, length // parts, self._hidden

    def local_modules(self) -> dict[int, nn.Module]:
        """Return this stage's modules by pipeline layer. For a tied head, the module is the embedding."""
        found: dict[int, nn.Module] = {}
        for offset, function in enumerate(self.forward_funcs):
            # DeepSpeed represents the tied head as a partial of `tied_head` with the embedding module.
            module: Any = function if isinstance(function, nn.Module) else function.args[0]
            found[self._local_start + offset] = module
        return found


def _layers(
    mesh: Mesh,
    model: ModelConfig,
    training: TrainingConfig,
    rows: int,
    kernels: Kernels,
    dropout: DropoutNumbers,
) -> list[LayerSpec]:
    """Return the specifications of all layers of the model, in the order of `bloomery.spec.gpt`."""
    hidden, epsilon = model.hidden_size, model.layer_norm_epsilon
    if training.kernels.compile or kernels.attention == "flex":
        compile_each_shape(model, training)
    fused = kernels.layer_norm == "apex"

    def tied(forward: Callable[[Embedding, torch.Tensor], torch.Tensor] | None = None) -> TiedLayerSpec:
        weight = "word_embeddings.weight"
        return TiedLayerSpec("embed", Embedding, mesh, rows, hidden, forward_fn=forward, tied_weight_attr=weight)

    norm = (
        LayerSpec(EmbeddingNorm, mesh, model, fused, 1, dropout)
        if model.embedding_layernorm
        else LayerSpec(NoEmbeddingNorm, mesh, model, 1, dropout)
    )
    blocks = [
        LayerSpec(TransformerBlock, mesh, model, training, kernels, layer, dropout)
        for layer in range(2, 2 + model.layers)
    ]
    last_norm = LayerSpec(LayerNorm, mesh, hidden, epsilon, fused)
    first, head = tied(), tied(tied_head)
    if not model.tied_embeddings:
        first, head = LayerSpec(Embedding, mesh, rows, hidden), LayerSpec(Head, mesh, rows, hidden)
    return [first, norm, *blocks, last_norm, head]
