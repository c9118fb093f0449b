"""Declare the pipeline layers and parameters of a GPT.

With L blocks the pipeline layers are:

- 0: the embedding.
- 1: the embedding LayerNorm and the learned positions, if the model has them. They are not part of the embedding's
  module, because DeepSpeed treats all parameters of a tied module as replicas.
- 2 to L+1: the blocks.
- L+2: the final LayerNorm.
- L+3: the head, which is the embedding again or a separate matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.spec.blocks import Block, embedding, norm, transformer_count, vocabulary
from bloomery.spec.placement import Parameter

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

EMBEDDING_LAYER = 0
EMBEDDING_NORM_LAYER = 1
FIRST_BLOCK_LAYER = 2


def final_norm_layer(model: ModelConfig) -> int:
    """Return the index of the final LayerNorm's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers


def head_layer(model: ModelConfig) -> int:
    """Return the index of the output head's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers + 1


def layer_count(model: ModelConfig) -> int:
    """Return the number of pipeline layers."""
    return model.layers + 4


def block_parameters(model: ModelConfig, block: int) -> list[Parameter]:
    """Return the parameters of transformer block `block`."""
    layer, gated = FIRST_BLOCK_LAYER + block, model.activation == "swiglu"
    return Block(f"h.{block}.", layer, model.hidden_size, model.ffn_size, gated).transformer()


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Return every parameter, in pipeline order."""
    hidden, head = model.hidden_size, head_layer(model)
    tied = (head,) if model.tied_embeddings else ()
    words = vocabulary("word_embeddings", vocabulary_rows, hidden, EMBEDDING_LAYER, tied)
    positions = embedding("position_embeddings", model.sequence_length, hidden, EMBEDDING_NORM_LAYER)
    return [
        words,
        *([positions] if model.positions == "learned" else []),
        *(norm("word_embeddings_layernorm", EMBEDDING_NORM_LAYER, "", hidden) if model.embedding_layernorm else []),
        *(parameter for block in range(model.layers) for parameter in block_parameters(model, block)),
        *norm("ln_f", final_norm_layer(model), "", hidden),
        *([] if model.tied_embeddings else [vocabulary("lm_head", vocabulary_rows, hidden, head)]),
    ]


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """Return the number of parameters by formula. For BLOOM-176B it is 176,247,271,424.

    The formula is l (12 h^2 + 13 h) + V h + 2 h. The embedding LayerNorm adds 2 h, learned positions add s h, an untied
    head adds V h, and SwiGLU adds l (h f + f).
    """
    hidden = model.hidden_size
    rows = vocabulary_rows * (1 if model.tied_embeddings else 2)
    rows += model.sequence_length if model.positions == "learned" else 0
    norms = 4 if model.embedding_layernorm else 2
    block = transformer_count(hidden, model.ffn_size, gated=model.activation == "swiglu")
    return model.layers * block + (rows + norms) * hidden
