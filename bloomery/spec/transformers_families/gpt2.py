"""GPT-2 in transformers (transformers 5.23 models/gpt2/modeling_gpt2.py): learned positions.

Its linear layers are of the class `Conv1D`, which holds transposed matrices. Its query-key-value layer holds all
queries, then all keys, then all values. The activation `gelu_new` is the tanh approximation of GELU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bloomery.spec.transformers_families.family import HEAD, Family, Target, Transform, both

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

_OURS, _THEIRS = "h.{block}", "transformer.h.{block}"


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "n_embd": model.hidden_size,
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_inner": model.ffn_size,
        "n_positions": model.sequence_length,
        "layer_norm_epsilon": model.layer_norm_epsilon,
    }


def _model(config: Mapping[str, Any]) -> dict[str, Any]:
    hidden = config["n_embd"]
    return {
        "hidden_size": hidden,
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "feed_forward_size": config.get("n_inner") or 4 * hidden,
        "sequence_length": config["n_positions"],
        "layer_norm_epsilon": config["layer_norm_epsilon"],
    }


GPT2 = Family(
    title="GPT-2",
    architecture="GPT2LMHeadModel",
    config_class="GPT2Config",
    model_type="gpt2",
    required={"family": "gpt", "positions": "learned", "activation": "gelu", "embedding_layernorm": False},
    targets={
        "word_embeddings.weight": Target("transformer.wte.weight"),
        "position_embeddings.weight": Target("transformer.wpe.weight"),
        **both(f"{_OURS}.input_layernorm", f"{_THEIRS}.ln_1"),
        **both(
            f"{_OURS}.self_attention.query_key_value",
            f"{_THEIRS}.attn.c_attn",
            weight=Transform.SPLIT_HEADS_TRANSPOSE,
            bias=Transform.SPLIT_HEADS,
        ),
        **both(f"{_OURS}.self_attention.dense", f"{_THEIRS}.attn.c_proj", weight=Transform.TRANSPOSE),
        **both(f"{_OURS}.post_attention_layernorm", f"{_THEIRS}.ln_2"),
        **both(f"{_OURS}.mlp.dense_h_to_4h", f"{_THEIRS}.mlp.c_fc", weight=Transform.TRANSPOSE),
        **both(f"{_OURS}.mlp.dense_4h_to_h", f"{_THEIRS}.mlp.c_proj", weight=Transform.TRANSPOSE),
        **both("ln_f", "transformer.ln_f"),
        HEAD: Target(HEAD),
    },
    blocks="transformer.h",
    config=_config,
    fixed={
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
    },
    model=_model,
    buffers=(".attn.bias", ".attn.masked_bias"),
)
