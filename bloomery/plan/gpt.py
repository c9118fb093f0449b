"""GPT: pipeline layers and parameters.

Pipeline layers with L blocks: 0 embedding (tied with the head), 1 embedding LayerNorm and learned positions (outside
the tied module, because DeepSpeed treats all parameters of a tied module as replicas), 2 .. L+1 blocks, L+2 final
LayerNorm, L+3 head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.contracts.placement import Parameter
from bloomery.plan.blocks import Block, embedding, norm, transformer_count

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

EMBEDDING_LAYER = 0
EMBEDDING_NORM_LAYER = 1
FIRST_BLOCK_LAYER = 2


def final_norm_layer(model: ModelConfig) -> int:
    """Index of the final LayerNorm's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers


def head_layer(model: ModelConfig) -> int:
    """Index of the output head's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers + 1


def layer_count(model: ModelConfig) -> int:
    """Number of pipeline layers."""
    return model.layers + 4


def block_parameters(model: ModelConfig, block: int) -> list[Parameter]:
    """Parameters of transformer block `block`."""
    return Block(f"h.{block}.", FIRST_BLOCK_LAYER + block, model.hidden_size, model.ffn_size).transformer()


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Every parameter, in pipeline order."""
    hidden = model.hidden_size
    words = embedding("word_embeddings", vocabulary_rows, hidden, EMBEDDING_LAYER, (head_layer(model),))
    positions = embedding("position_embeddings", model.sequence_length, hidden, EMBEDDING_NORM_LAYER)
    return [
        words,
        *([positions] if model.positions == "learned" else []),
        *(norm("word_embeddings_layernorm", EMBEDDING_NORM_LAYER, "", hidden) if model.embedding_layernorm else []),
        *(parameter for block in range(model.layers) for parameter in block_parameters(model, block)),
        *norm("ln_f", final_norm_layer(model), "", hidden),
    ]


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """By formula: l (12 h^2 + 13 h) + V h + 2 h, + 2 h for the embedding LayerNorm, + s h for learned positions.

    BLOOM-176B: 176,247,271,424.
    """
    hidden = model.hidden_size
    rows = vocabulary_rows + (model.sequence_length if model.positions == "learned" else 0)
    norms = 4 if model.embedding_layernorm else 2
    return model.layers * transformer_count(hidden, model.ffn_size) + (rows + norms) * hidden
