"""GPT-NeoX in transformers (transformers 5.23 models/gpt_neox/modeling_gpt_neox.py): rotary positions with biases.

No tensor changes: the rows of query_key_value are ordered [head, (q, k, v), head_dim] in both models. All features of a
head are rotated, and the residual is sequential, as in the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bloomery.spec.transformers_families.family import HEAD, Family, Target, both

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

_MODULES = {
    "input_layernorm": "input_layernorm",
    "self_attention.query_key_value": "attention.query_key_value",
    "self_attention.dense": "attention.dense",
    "post_attention_layernorm": "post_attention_layernorm",
    "mlp.dense_h_to_4h": "mlp.dense_h_to_4h",
    "mlp.dense_4h_to_h": "mlp.dense_4h_to_h",
}


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.ffn_size,
        "max_position_embeddings": model.sequence_length,
        "layer_norm_eps": model.layer_norm_epsilon,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": model.rotary_base,
            "partial_rotary_factor": 1.0,
        },
    }


def _model(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_size": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "feed_forward_size": config["intermediate_size"],
        "sequence_length": config["max_position_embeddings"],
        "layer_norm_epsilon": config["layer_norm_eps"],
        "rotary_base": float(config["rope_parameters"]["rope_theta"]),
    }


GPT_NEOX = Family(
    title="GPT-NeoX",
    architecture="GPTNeoXForCausalLM",
    config_class="GPTNeoXConfig",
    model_type="gpt_neox",
    required={"family": "gpt", "positions": "rotary", "activation": "gelu", "embedding_layernorm": False},
    targets={
        "word_embeddings.weight": Target("gpt_neox.embed_in.weight"),
        **{
            name: target
            for ours, theirs in _MODULES.items()
            for name, target in both(f"h.{{block}}.{ours}", f"gpt_neox.layers.{{block}}.{theirs}").items()
        },
        **both("ln_f", "gpt_neox.final_layer_norm"),
        HEAD: Target(HEAD),
    },
    blocks="gpt_neox.layers",
    config=_config,
    fixed={
        "hidden_act": "gelu_pytorch_tanh",
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "attention_bias": True,
        "use_parallel_residual": False,
    },
    model=_model,
    saved_head="embed_out.weight",
    buffers=(".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"),
)
