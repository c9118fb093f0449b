"""Declare T5 as Megatron-LM builds it: learned positions, biases, and one embedding for encoder, decoder and head.

With E encoder blocks and D decoder blocks the pipeline layers are:

- 0: the embeddings.
- 1 to E: the encoder blocks.
- E+1: the encoder's final LayerNorm.
- E+2 to E+D+1: the decoder blocks.
- E+D+2: the final LayerNorm and the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.spec.blocks import (
    Block,
    cross_attention_count,
    embedding,
    head_bias,
    norm,
    transformer_count,
    vocabulary,
)
from bloomery.spec.placement import Parameter

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig


def layer_count(model: ModelConfig) -> int:
    """Return the number of pipeline layers."""
    return model.layers + (model.decoder_layers or 0) + 3


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Return every parameter, in pipeline order."""
    hidden, ffn, encoder = model.hidden_size, model.ffn_size, model.layers
    last = layer_count(model) - 1
    found = [
        vocabulary("word_embeddings", vocabulary_rows, hidden, 0, (last,)),
        embedding("position_embeddings", model.sequence_length, hidden, 0),
    ]
    for block in range(encoder):
        found += Block(f"encoder.{block}.", 1 + block, hidden, ffn).transformer()
    found += norm("encoder.ln_f", encoder + 1, "ln_f.", hidden)
    for block in range(model.decoder_layers or 0):
        decoder = Block(f"decoder.{block}.", encoder + 2 + block, hidden, ffn)
        found += [*decoder.transformer(), *decoder.cross_attention()]
    return [*found, *norm("decoder.ln_f", last, "ln_f.", hidden), head_bias(vocabulary_rows, last)]


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """Return the number of parameters by formula.

    The formula is (e + d) (4 h^2 + 2 h f + 9 h + f) + d (4 h^2 + 6 h) + (V + s) h + 4 h + V.
    """
    hidden, decoder = model.hidden_size, model.decoder_layers or 0
    blocks = (model.layers + decoder) * transformer_count(hidden, model.ffn_size)
    embeddings = (vocabulary_rows + model.sequence_length) * hidden
    return blocks + decoder * cross_attention_count(hidden) + embeddings + 4 * hidden + vocabulary_rows
