"""Declare BERT as Megatron-LM builds it (Shoeybi et al. 2019, arXiv:1909.08053).

LayerNorm precedes each sub-layer. The masked-token head is tied with the embedding. The sentence head reads the pooled
first token.

With L blocks the pipeline layers are:

- 0: the embeddings.
- 1 to L: the blocks.
- L+1: the final LayerNorm and the heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.spec.blocks import Block, embedding, head_bias, norm, replicated_linear, transformer_count, vocabulary
from bloomery.spec.placement import Parameter

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

SEGMENTS = 2
"""Number of token types: first and second sentence."""


def layer_count(model: ModelConfig) -> int:
    """Return the number of pipeline layers."""
    return model.layers + 2


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Return every parameter, in pipeline order."""
    hidden, last = model.hidden_size, model.layers + 1
    return [
        vocabulary("word_embeddings", vocabulary_rows, hidden, 0, (last,)),
        embedding("position_embeddings", model.sequence_length, hidden, 0),
        embedding("token_type_embeddings", SEGMENTS, hidden, 0),
        *(
            parameter
            for block in range(model.layers)
            for parameter in Block(f"h.{block}.", 1 + block, hidden, model.ffn_size).transformer()
        ),
        *norm("ln_f", last, "ln_f.", hidden),
        *replicated_linear("pooler.dense", hidden, hidden, last),
        *replicated_linear("lm_head.dense", hidden, hidden, last),
        *norm("lm_head.layernorm", last, "lm_head.layernorm.", hidden),
        head_bias(vocabulary_rows, last),
        *replicated_linear("sentence_head", 2, hidden, last),
    ]


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """Return the number of parameters by formula.

    With L blocks, hidden size h, V vocabulary rows, s positions and feed-forward width 4 h, it is
    L (12 h^2 + 13 h) + (V + s + 2) h + 2 h^2 + 8 h + V + 2.
    """
    hidden = model.hidden_size
    embeddings = (vocabulary_rows + model.sequence_length + SEGMENTS) * hidden
    heads = 2 * (hidden**2 + hidden) + 4 * hidden + vocabulary_rows + 2 * hidden + 2
    return model.layers * transformer_count(hidden, model.ffn_size) + embeddings + heads
