"""Test which networks are read from a config.json, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import InputError
from export.from_transformers.read_network import read_network

BLOOM_560M = {
    "apply_residual_connection_post_layernorm": False,
    "attention_dropout": 0.0,
    "attention_softmax_in_fp32": True,
    "bias_dropout_fusion": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 3,
    "hidden_dropout": 0.0,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "masked_softmax_fusion": True,
    "model_type": "bloom",
    "n_embed": 1024,
    "n_inner": None,
    "n_layer": 24,
    "num_attention_heads": 16,
    "offset_alibi": 100,
    "pretraining_tp": 1,
    "skip_bias_add": True,
    "skip_bias_add_qkv": False,
    "transformers_version": "4.20.0",
    "unk_token_id": 0,
    "use_cache": True,
    "vocab_size": 250880,
}
"""Keys of config.json of bigscience/bloom-560m, which an old version of transformers wrote."""
GPT2 = {"model_type": "gpt2", "n_embd": 96, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 100}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "use_parallel_residual": False,
    "rotary_pct": 1.0,
    "rotary_emb_base": 5000,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}


def read(folder: Path, values: Any) -> Any:
    (folder / "config.json").write_text(json.dumps(values))
    return read_network(folder)


def test_the_old_names_of_bloom_are_understood(tmp_path: Path) -> None:
    network = read(tmp_path, BLOOM_560M)
    model = network.model
    assert (network.family.title, network.rows) == ("BLOOM", 250880)
    assert (model.layers, model.hidden_size, model.heads, model.ffn_size) == (24, 1024, 16, 4096)
    assert (model.positions, model.embedding_layernorm, model.tied_embeddings) == ("alibi", True, True)
    assert (model.sequence_length, model.init_std) == (2048, 0.02)


def test_the_defaults_of_transformers_apply_to_missing_keys(tmp_path: Path) -> None:
    network = read(tmp_path, GPT2)
    assert (network.model.ffn_size, network.model.positions, network.model.tied_embeddings) == (384, "learned", True)
    # These are the defaults of GPT-2. They do not change what the network computes.
    assert network.dropout == {"resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}


def test_the_old_names_of_rotary_positions_are_understood(tmp_path: Path) -> None:
    model = read(tmp_path, NEOX).model
    assert (model.positions, model.rotary_base, model.tied_embeddings) == ("rotary", 5000.0, False)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "not a JSON object"),
        ({}, r"model_type is None; expected: a model of one of these types: 'bloom' \(BLOOM\), 'gpt2'"),
        ({"model_type": "llama"}, "model_type is 'llama'"),
        (BLOOM_560M | {"auto_map": {"AutoModel": "own.Own"}}, "the key 'auto_map' makes transformers run Python code"),
        (BLOOM_560M | {"quantization_config": {"bits": 4}}, "the weights are quantized"),
        (BLOOM_560M | {"apply_residual_connection_post_layernorm": True}, "apply_residual_.* is True, so Bloomery can"),
        (BLOOM_560M | {"n_inner": 100}, "n_inner is 100"),
        (BLOOM_560M | {"n_layer": "many"}, "transformers cannot read this configuration: .*n_layer"),
        (BLOOM_560M | {"n_layer": 0}, "the sizes are not those of a network: layers"),
        (BLOOM_560M | {"n_embed": 1000}, "hidden_size 1000 must be divisible by heads 16"),
        (BLOOM_560M | {"vocab_size": 0}, "vocab_size is 0"),
        (
            GPT2 | {"activation_function": "relu"},
            "activation_function is 'relu'.*expected: activation_function 'gelu_n",
        ),
        (BLOOM_560M | {"attention_dropout": -1}, "attention_dropout is -1.*expected: a probability from 0 to 1"),
        (GPT2 | {"resid_pdrop": 1.5}, "resid_pdrop is 1.5"),
        (GPT2 | {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        (NEOX | {"use_parallel_residual": True}, "use_parallel_residual is True"),
        (NEOX | {"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        (NEOX | {"rotary_pct": 0.25}, "rope_parameters.partial_rotary_factor is 0.25"),
        (NEOX | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_parameters.rope_type is 'linear'"),
    ],
)
def test_another_network_is_refused_with_the_key(tmp_path: Path, values: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path, values)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.expected


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
@pytest.mark.parametrize("value", ["float16", [], {"a": 1}])
def test_the_data_type_of_the_configuration_is_not_read(tmp_path: Path, key: str, value: Any) -> None:
    assert read(tmp_path, BLOOM_560M | {key: value}).model == read(tmp_path, BLOOM_560M).model


def test_a_missing_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_network(tmp_path / "none")
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        read_network(tmp_path)
