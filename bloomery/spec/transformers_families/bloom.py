"""BLOOM in transformers (transformers 5.23 models/bloom/modeling_bloom.py).

No tensor changes: the rows of query_key_value are ordered [head, (q, k, v), head_dim] in both models (`_reshape`).
`slow_but_exact` stays off, because with it transformers 5.23 drops the biases of the row-parallel layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bloomery.spec.transformers_families.family import HEAD, Family, Target, both

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

_MODULES = (
    "input_layernorm",
    "self_attention.query_key_value",
    "self_attention.dense",
    "post_attention_layernorm",
    "mlp.dense_h_to_4h",
    "mlp.dense_4h_to_h",
)


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "hidden_size": model.hidden_size,
        "n_layer": model.layers,
        "n_head": model.heads,
        "layer_norm_epsilon": model.layer_norm_epsilon,
        "seq_length": model.sequence_length,
    }


def _model(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_size": config["hidden_size"],
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "layer_norm_epsilon": config["layer_norm_epsilon"],
        "sequence_length": config.get("seq_length", 2048),
    }


BLOOM = Family(
    title="BLOOM",
    architecture="BloomForCausalLM",
    config_class="BloomConfig",
    model_type="bloom",
    required={"family": "gpt", "positions": "alibi", "activation": "gelu", "embedding_layernorm": True},
    needs_4h=True,
    targets={
        "word_embeddings.weight": Target("transformer.word_embeddings.weight"),
        **both("word_embeddings_layernorm", "transformer.word_embeddings_layernorm"),
        **{
            name: target
            for module in _MODULES
            for name, target in both(f"h.{{block}}.{module}", f"transformer.h.{{block}}.{module}").items()
        },
        **both("ln_f", "transformer.ln_f"),
        HEAD: Target(HEAD),
    },
    blocks="transformer.h",
    config=_config,
    fixed={
        "apply_residual_connection_post_layernorm": False,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "slow_but_exact": False,
    },
    model=_model,
)
