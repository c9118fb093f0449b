"""Test that the network is read from the arguments of its training, and that other networks are refused."""

from __future__ import annotations

import pytest
import torch
from fabricated_megatron import BLOOM, GPT2, GPT_NEOX, NETWORKS, fabricate_layers

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.layer_files import LayerFiles


@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_network_is_that_of_the_training(tmp_path, name):
    made = fabricate_layers(tmp_path, NETWORKS[name])
    found = LayerFiles(made.folder)
    assert found.model == made.model.model_copy(update={"init_std": 0.02})
    assert (found.rows, found.entries, found.ranks, found.dtype) == (312, 290, 2, "bfloat16")


def test_the_activation_of_openai_is_the_same_approximation(tmp_path):
    made = fabricate_layers(tmp_path)
    made.write_arguments(bias_gelu_fusion=False, openai_gelu=True)
    assert LayerFiles(made.folder).model.activation == "gelu"


@pytest.mark.parametrize(
    ("changed", "base"),
    [
        ({}, 10000.0),
        ({"rope_theta": 500_000}, 500_000.0),
        ({"rotary_base": 1_000_000}, 1_000_000.0),
        ({"rope_theta": 5000, "rotary_base": 5000.0}, 5000.0),
        ({"rope_theta": None}, 10000.0),
    ],
)
def test_the_base_of_rotary_positions_is_that_of_the_training(tmp_path, changed, base):
    made = fabricate_layers(tmp_path, GPT_NEOX)
    made.write_arguments(**changed)
    assert LayerFiles(made.folder).model.rotary_base == base


def test_a_base_has_no_effect_without_rotary_positions(tmp_path):
    made = fabricate_layers(tmp_path)
    made.write_arguments(rope_theta=500_000)
    assert LayerFiles(made.folder).model.rotary_base == 10000.0


def test_arguments_that_do_not_change_the_network_are_accepted(tmp_path):
    # The defaults of deepspeedai/Megatron-DeepSpeed and of NVIDIA/Megatron-LM for a GPT with LayerNorm and biases.
    made = fabricate_layers(tmp_path, GPT_NEOX)
    before = LayerFiles(made.folder).model
    made.write_arguments(
        use_rotary_position_embeddings=True,
        rope_theta=10000,
        rotary_percent=1.0,
        rotary_interleaved=False,
        rotary_seq_len_interpolation_factor=None,
        rope_scaling_factor=8.0,
        num_experts=[1],
        num_experts_switch=None,
        num_key_value_heads=12,
        num_query_groups=1,
        group_query_attention=False,
        normalization="layernorm",
        apply_layernorm_1p=False,
        mem_efficient_ln=True,
        add_bias_linear=True,
        untie_embeddings_and_output_weights=False,
        apply_query_key_layer_scaling=True,
        attention_softmax_in_fp32=True,
        fp32_residual_connection=True,
        attention_dropout=0.1,
        onnx_safe=None,
        retro_add_retriever=False,
        use_flash_attn=True,
    )
    assert LayerFiles(made.folder).model == before


@pytest.mark.parametrize(
    ("network", "changed", "message"),
    [
        (BLOOM, {"bias_gelu_fusion": False}, "the exact GELU"),
        (BLOOM, {"glu_activation": "geglu"}, "glu_activation 'geglu'"),
        (BLOOM, {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm True"),
        (BLOOM, {"num_layers": 3}, "num_layers is 3, but the files hold 2 blocks"),
        (BLOOM, {"kv_channels": 8}, "kv_channels is 8; expected: 2"),
        (BLOOM, {"num_attention_heads": None}, "the argument num_attention_heads is None"),
        (BLOOM, {"num_attention_heads": 7, "kv_channels": None}, "describe no network"),
        (BLOOM, {"position_embedding_type": 9}, "position_embedding_type is 9"),
        (BLOOM, {"position_embedding_type": "absolute"}, "is learned, but the files hold no learned positions"),
        (GPT2, {"position_embedding_type": "alibi"}, "is alibi, but the files hold learned positions"),
        (BLOOM, {"apply_layernorm_1p": True}, "apply_layernorm_1p True; expected: False"),
        (BLOOM, {"layernorm_zero_centered_gamma": True}, "layernorm_zero_centered_gamma True"),
        (BLOOM, {"normalization": "rmsnorm"}, "normalization 'rmsnorm'"),
        (BLOOM, {"onnx_safe": True}, "onnx_safe True"),
        (BLOOM, {"num_experts": [4]}, "num_experts 4"),
        (BLOOM, {"num_experts": [1, 4]}, r"num_experts \[1, 4\]"),
        (BLOOM, {"add_bias_linear": False}, "add_bias_linear False"),
        (BLOOM, {"num_key_value_heads": 3}, "num_key_value_heads is 3; expected: 12"),
        (BLOOM, {"qk_layernorm": True}, "qk_layernorm True"),
        (BLOOM, {"parallel_attn": True}, "parallel_attn True"),
        (BLOOM, {"window_size": (128, 0)}, r"window_size \(128, 0\)"),
        (BLOOM, {"use_mup": True}, "use_mup True"),
        (BLOOM, {"retro_add_retriever": True}, "retro_add_retriever True"),
        (BLOOM, {"untie_embeddings_and_output_weights": True}, "is True, but the files hold no output head"),
        (BLOOM, {"embed_layernorm": False}, "is False, but the files hold an extra LayerNorm of the embedding"),
        (GPT2, {"embed_layernorm": True}, "is True, but the files hold no LayerNorm of the embedding"),
        (GPT2, {"use_bnb_optimizer": True}, "the files hold no LayerNorm of the embedding"),
        (BLOOM, {"seed": torch.ones(2)}, "the argument seed is a tensor"),
        (GPT_NEOX, {"rotary_percent": 0.25}, "rotary_percent 0.25; expected: 1.0"),
        (GPT_NEOX, {"rotary_interleaved": True}, "rotary_interleaved True"),
        (GPT_NEOX, {"rotary_seq_len_interpolation_factor": 2}, "rotary_seq_len_interpolation_factor 2"),
        (GPT_NEOX, {"use_rope_scaling": True}, "use_rope_scaling True"),
        (GPT_NEOX, {"rope_theta": 0.5}, "rope_theta is 0.5; expected: a number greater than 1"),
        (GPT_NEOX, {"rope_theta": "10000"}, "rope_theta is '10000'"),
        (GPT_NEOX, {"rotary_base": float("nan")}, "rotary_base is nan"),
        (GPT_NEOX, {"rope_theta": 5000, "rotary_base": 10000}, "two bases of the rotary positions"),
    ],
)
def test_arguments_of_another_network_are_refused(tmp_path, network, changed, message):
    made = fabricate_layers(tmp_path, network)
    made.write_arguments(**changed)
    with pytest.raises(InputError, match=message) as caught:
        LayerFiles(made.folder)
    assert "mp_rank_00_model_states.pt" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": None}, "no arguments of Megatron"),
        ({"checkpoint_version": 1.0}, "version 1.0, which orders queries"),
        (None, "lacks the file with the arguments"),
    ],
)
def test_a_checkpoint_without_usable_arguments_is_an_error(tmp_path, change, message):
    made = fabricate_layers(tmp_path)
    path = made.folder / "mp_rank_00_model_states.pt"
    path.unlink()
    if change is not None:
        torch.save({"args": {}, "checkpoint_version": 3.0} | change, path)
    with pytest.raises(InputError, match=message):
        LayerFiles(made.folder)
