"""The network as DeepSpeed's pipeline of layers, cut where the plan says (`bloomery.plan.parameters`)."""

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
from bloomery.plan.parameters import layer_count
from bloomery.plan.partition import stage_bounds
from training.model.block import TransformerBlock
from training.parallel.cross_entropy import vocabulary_parallel_cross_entropy
from training.parallel.layers import VocabularyParallelEmbedding
from training.parallel.mesh import Mesh


class Embedding(nn.Module):
    """Token embedding; the tied head uses the same weight. Its LayerNorm is a layer of its own (see the plan)."""

    def __init__(self, mesh: Mesh, rows: int, hidden: int) -> None:
        super().__init__()
        self.word_embeddings = VocabularyParallelEmbedding(mesh, rows, hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [batch, length] -> [batch, length, hidden]."""
        return self.word_embeddings(tokens)  # type: ignore[no-any-return]


def _head(embedding: Embedding, x: torch.Tensor) -> torch.Tensor:
    """[batch, length, hidden] -> this rank's logits [batch, length, rows / tensor_size]."""
    return embedding.word_embeddings.logits(x)


class BloomPipeline(PipelineModule):  # type: ignore[misc]
    """PipelineModule with the stage bounds of the plan instead of DeepSpeed's own partitioning."""

    def __init__(self, mesh: Mesh, model: ModelConfig, training: TrainingConfig, vocabulary_rows: int) -> None:
        self._bounds = stage_bounds(model, vocabulary_rows, mesh.parallel.pipeline, training.partition)

        def tied(forward: Callable[[Embedding, torch.Tensor], torch.Tensor] | None = None) -> TiedLayerSpec:
            return TiedLayerSpec(
                "embed",
                Embedding,
                mesh,
                vocabulary_rows,
                model.hidden_size,
                forward_fn=forward,
                tied_weight_attr="word_embeddings.weight",
            )

        norm = LayerSpec(nn.LayerNorm, model.hidden_size, eps=model.layer_norm_epsilon)
        blocks = (LayerSpec(TransformerBlock, mesh, model) for _ in range(model.layers))
        layers = [tied(), norm, *blocks, norm, tied(_head)]
        assert len(layers) == layer_count(model)
        first_row = mesh.tensor_rank * (vocabulary_rows // mesh.tensor_size)

        def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return vocabulary_parallel_cross_entropy(logits, labels, first_row, mesh.tensor_group)

        # DeepSpeed prints its layer list to stdout, which is for data here.
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(
                layers,
                topology=mesh.topology,
                loss_fn=loss,
                activation_checkpoint_interval=1 if training.activation_checkpointing else 0,
                # Only blocks: the first stage's input are integer tokens, through which no gradient flows back.
                checkpointable_layers=[TransformerBlock.__name__],
            )

    def _partition_layers(self, method: str = "") -> None:
        self.parts = list(self._bounds)
        self._set_bounds(self.parts[self.stage_id], self.parts[self.stage_id + 1])

    @torch.no_grad()
    def _synchronize_tied_weights(self) -> None:
        # DeepSpeed broadcasts the parameter itself with gradients on: autograd then warns of "c10d::broadcast_" in each
        # backward pass.
        super()._synchronize_tied_weights()

    def local_modules(self) -> dict[int, nn.Module]:
        """This stage's modules by pipeline layer; the head's layer gives the (tied) embedding module."""
        found: dict[int, nn.Module] = {}
        for offset, function in enumerate(self.forward_funcs):
            # The tied head is a partial over the embedding module.
            module: Any = function if isinstance(function, nn.Module) else function.args[0]
            found[self._local_start + offset] = module
        return found
