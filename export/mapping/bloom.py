"""BLOOM: map canonical parameter names to those of transformers' `BloomForCausalLM`, and back.

No tensor is permuted: the rows of query_key_value are ordered [head, (q, k, v), head_dim] in both models (transformers
5.23 models/bloom/modeling_bloom.py, `_reshape`). Biases of row-parallel layers are added once after the reduction, so
the ranks hold equal copies, which are never summed. The output head is tied to the embedding and has no tensor of its
own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import CheckFailedError
from bloomery.spec.parameters import declare
from bloomery.spec.refuse_unsupported import refuse_unexportable

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

_BLOCK_MODULES = (
    "input_layernorm",
    "self_attention.query_key_value",
    "self_attention.dense",
    "post_attention_layernorm",
    "mlp.dense_h_to_4h",
    "mlp.dense_4h_to_h",
)

TABLE: dict[str, str] = {
    "word_embeddings.weight": "transformer.word_embeddings.weight",
    "word_embeddings_layernorm.weight": "transformer.word_embeddings_layernorm.weight",
    "word_embeddings_layernorm.bias": "transformer.word_embeddings_layernorm.bias",
    **{
        f"h.{{block}}.{module}.{kind}": f"transformer.h.{{block}}.{module}.{kind}"
        for module in _BLOCK_MODULES
        for kind in ("weight", "bias")
    },
    "ln_f.weight": "transformer.ln_f.weight",
    "ln_f.bias": "transformer.ln_f.bias",
}
"""Name of each parameter in transformers, by its canonical name. `{block}` stands for the number of a block."""

INVERSE: dict[str, str] = {theirs: ours for ours, theirs in TABLE.items()}
"""Canonical name of each parameter, by its name in transformers."""

TIED_HEAD = "lm_head.weight"
"""Transformers' name of the output head, which shares the embedding's memory."""

_BLOCK = re.compile(r"(^|\.)h\.(\d+)\.")


def _look_up(table: dict[str, str], name: str) -> str:
    match = _BLOCK.search(name)
    pattern = name if match is None else _BLOCK.sub(r"\1h.{block}.", name, count=1)
    found = table.get(pattern)
    if found is None:
        raise CheckFailedError(
            "this parameter has no counterpart in the table of BLOOM's parameters",
            where=name,
            expected="one of " + ", ".join(sorted(table)),
        )
    return found if match is None else found.replace("{block}", match.group(2))


def to_transformers(name: str) -> str:
    """Return the name in transformers of a parameter, from its canonical name.

    Raises CheckFailedError if the table lacks the name.
    """
    return _look_up(TABLE, name)


def to_canonical(name: str) -> str:
    """Return the canonical name of a parameter, from its name in transformers.

    Raises CheckFailedError if the table lacks the name.
    """
    return _look_up(INVERSE, name)


def check_exportable(model: ModelConfig, vocabulary_rows: int, config: Any) -> None:
    """Check that `BloomForCausalLM` can hold the network: every name and shape must match, one to one.

    Args:
        model: the trained network.
        vocabulary_rows: rows of the exported embedding.
        config: the `BloomConfig` of the export; its model is built on torch's meta device, which uses no memory.

    Raises:
        CheckFailedError: a name or a shape does not match.
        ConfigError: the configuration has a feature that `BloomForCausalLM` lacks.
    """
    import torch
    from transformers import BloomForCausalLM

    # Names and shapes do not show every difference: rotary positions, for example, have no parameters.
    refuse_unexportable(model)
    reasons = []
    with torch.device("meta"):
        theirs = {
            name: tuple(tensor.shape)
            for name, tensor in BloomForCausalLM(config).state_dict().items()
            if name != TIED_HEAD
        }
    ours = {to_transformers(parameter.name): parameter.shape for parameter in declare(model, vocabulary_rows)}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            reasons.append(
                f"the shape of {name} is {ours.get(name, '(no such parameter)')} in the training and "
                f"{theirs.get(name, '(no such parameter)')} in transformers"
            )
    if reasons:
        raise CheckFailedError(
            "this network cannot be exported as BloomForCausalLM: " + "; ".join(reasons[:5]),
            where="model",
            expected="a network with ALiBi, embedding LayerNorm, biases, tanh GELU and a feed-forward width of 4 x "
            "hidden_size",
        )
