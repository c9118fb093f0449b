"""Test that the network is read from the arguments of its training, and that other networks are refused."""

from __future__ import annotations

import pytest
import torch
from fabricated_megatron import BLOOM, GPT2, NETWORKS, fabricate_layers

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
