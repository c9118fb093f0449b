"""BLOOM: canonical parameter names to transformers' `BloomForCausalLM`, as a table read both ways.

No tensor is permuted: query_key_value rows are [head, (q, k, v), head_dim] on both sides (transformers 5.23
models/bloom/modeling_bloom.py, `_reshape`). Biases of row-parallel layers are added once after the reduction, so they
are replicated here and never summed. The output head is tied to the embedding and has no tensor of its own.
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
"""Canonical name -> transformers name; `{block}` stands for the number of a block."""

INVERSE: dict[str, str] = {theirs: ours for ours, theirs in TABLE.items()}
"""Transformers name -> canonical name."""

TIED_HEAD = "lm_head.weight"
"""Transformers' name of the output head, which shares the embedding's memory."""

_BLOCK = re.compile(r"(^|\.)h\.(\d+)\.")


def _look_up(table: dict[str, str], name: str) -> str:
    match = _BLOCK.search(name)
    pattern = name if match is None else _BLOCK.sub(r"\1h.{block}.", name, count=1)
    found = table.get(pattern)
    if found is None:
        raise CheckFailedError(
            f"parameter {name} has no counterpart in the BLOOM mapping", expected="one of " + ", ".join(sorted(table))
        )
    return found if match is None else found.replace("{block}", match.group(2))


def to_transformers(name: str) -> str:
    """Transformers' name of a canonical parameter name. Raises CheckFailedError for one that the table lacks."""
    return _look_up(TABLE, name)


def to_canonical(name: str) -> str:
    """Canonical name of a transformers parameter name. Raises CheckFailedError for one that the table lacks."""
    return _look_up(INVERSE, name)


def check_exportable(model: ModelConfig, vocabulary_rows: int, config: Any) -> None:
    """Refuse a network that `BloomForCausalLM` cannot hold: every name and shape must match, one to one.

    Args:
        model: the trained network.
        vocabulary_rows: rows of the exported embedding.
        config: the `BloomConfig` of the export; its model is built without memory (on torch's meta device).
    """
    import torch
    from transformers import BloomForCausalLM

    refuse_unexportable(model)  # rotary positions, for one, have no parameters
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
            reasons.append(f"{name}: trained {ours.get(name, 'absent')}, transformers {theirs.get(name, 'absent')}")
    if reasons:
        raise CheckFailedError(
            "this network cannot be exported as BloomForCausalLM: " + "; ".join(reasons[:5]),
            expected="ALiBi, embedding LayerNorm, biases, tanh GELU and a feed-forward width of 4 x hidden_size",
        )
