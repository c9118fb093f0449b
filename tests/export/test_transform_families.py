"""Test that every family of transformers models computes exactly what the trained network computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_export import canonical_weights, random_model
from safetensors.torch import load_file

from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from bloomery.spec.transformers_families.choose import FAMILIES, exact_family
from bloomery.spec.transformers_families.family import HEAD
from export.export_model import export_model
from export.transform import to_training, to_transformers

BLOOM: dict[str, Any] = {}
GPT2 = {"positions": "learned", "embedding_layernorm": False, "feed_forward_size": 96}
GPT_NEOX = {"positions": "rotary", "embedding_layernorm": False, "rotary_base": 5000.0, "feed_forward_size": 64}
NETWORKS = {"bloom": BLOOM, "gpt2": GPT2, "gpt_neox": GPT_NEOX}


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_an_exported_network_equals_the_model_that_its_checkpoint_was_cut_from(fabricate, name, tied, ranks):
    from transformers import AutoModelForCausalLM

    run = fabricate(tensor=ranks, network={**NETWORKS[name], "tied_embeddings": tied})
    parity = export_model(run.stage, run.paths, run.target)
    family, whole = exact_family(run.stage.model), run.whole.state_dict()
    saved = load_file(run.target / "model.safetensors")
    # Transformers 4 knows only this name of GPT-NeoX's head.
    assert ("embed_out.weight" in saved) == (name == "gpt_neox" and not tied)
    weights = {family.loaded_name(key): tensor for key, tensor in saved.items()}
    assert weights.keys() == whole.keys() - ({HEAD} if tied else set())
    assert all(torch.equal(tensor, whole[key].bfloat16()) for key, tensor in weights.items())
    assert parity.max_difference < 1e-5
    assert parity.argmax_agreement == 1.0
    loaded, info = AutoModelForCausalLM.from_pretrained(run.target, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    tokens = torch.randint(4, run.manifest.vocabulary_size, (2, 20))
    with torch.inference_mode():
        assert torch.equal(loaded(input_ids=tokens).logits, run.whole(input_ids=tokens).logits)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_each_network_has_its_own_family_and_every_parameter_a_place(name):
    model = ModelConfig(layers=120, hidden_size=32, heads=4, sequence_length=32, **NETWORKS[name])
    family = exact_family(model)
    assert family is not None
    assert family.model_type == name
    names = [family.target(parameter).name for parameter in declare(model, 64)]
    assert len(set(names)) == len(names)
    assert any(".107." in each for each in names)
    assert [other.model_type for other in FAMILIES if not other.lacks(model)] == [name]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_transforms_of_a_family_can_be_undone_bit_for_bit(name):
    model = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32, **NETWORKS[name])
    family, whole = exact_family(model), random_model(model, 64, torch.float32)
    state = whole.state_dict()
    for parameter in declare(model, 64):
        target = family.target(parameter)
        ours = canonical_weights(whole, model, 64)[parameter.name]
        assert ours.shape == parameter.shape
        assert target.shape(parameter.shape) == state[target.name].shape
        again = to_transformers(ours, target.transform, model.heads)
        assert torch.equal(again, state[target.name])
        assert torch.equal(to_training(again, target.transform, model.heads), ours)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_values_of_config_json_give_the_network_back(name):
    model = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32, **NETWORKS[name])
    family = exact_family(model)
    keys = family.model(family.config(model)) | dict(family.required)
    assert ModelConfig(**keys).ffn_size == model.ffn_size
    assert ModelConfig(**keys).model_copy(update={"feed_forward_size": None}) == model.model_copy(
        update={"feed_forward_size": None}
    )
