"""Test that the first module that differs is named, whatever is wrong with the exported model."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.reference import read_reference
from bloomery.checkpoint.weights import Checkpoint
from bloomery.spec.transformers_families.choose import family_for_export
from export.export_model import export_model
from export.proof.prove import Written, prove

pytestmark = pytest.mark.slow

NEOX = {"positions": "rotary", "embedding_layernorm": False}
GPT2 = {"positions": "learned", "embedding_layernorm": False, "tied_embeddings": False}


def proof_error(run):
    checkpoint = Checkpoint(run.checkpoint)
    manifest = run.manifest
    written = Written(
        run.target, family_for_export(run.stage.model), manifest.vocabulary_rows, manifest.vocabulary_size, 1000
    )
    reference = read_reference(run.checkpoint / "reference.safetensors", manifest.vocabulary_size)
    with pytest.raises(CheckFailedError) as caught:
        prove(written, checkpoint, reference, 1e-4, failed=run.target)
    return str(caught.value)


def swap_query_and_key(tensor):
    tensor.copy_(tensor.unflatten(0, (4, 3, 8))[:, [1, 0, 2]].flatten(0, 2))


def change_weight(run, name, change):
    path = run.target / "model.safetensors"
    weights = load_file(path)
    weights[name] = change(weights[name]).contiguous()
    save_file(weights, path, {"format": "pt"})


@pytest.mark.parametrize(
    ("network", "name", "change", "module"),
    [
        ({}, "transformer.word_embeddings.weight", lambda t: t.roll(1, 0), "word_embeddings"),
        ({}, "transformer.word_embeddings_layernorm.bias", lambda t: t + 1, "word_embeddings_layernorm"),
        ({}, "transformer.h.1.self_attention.dense.bias", lambda t: t * 2, "h.1.self_attention.dense"),
        (NEOX, "gpt_neox.layers.0.mlp.dense_h_to_4h.weight", lambda t: t.flip(0), "h.0.mlp.dense_h_to_4h"),
        (GPT2, "transformer.wpe.weight", lambda t: t.flip(0), "position_embeddings"),
        # Only the longer samples have these positions.
        (GPT2, "transformer.wpe.weight", lambda t: torch.cat((t[:28], t[28:].flip(0))), "position_embeddings"),
        (GPT2, "transformer.h.1.attn.c_attn.bias", lambda t: t.flip(0), "h.1.self_attention.query_key_value"),
        (GPT2, "transformer.ln_f.weight", lambda t: t + 0.5, "ln_f"),
        (GPT2, "lm_head.weight", lambda t: t.flip(1), "lm_head"),
    ],
)
def test_a_wrong_weight_is_named_by_its_module(fabricate, network, name, change, module):
    run = fabricate(network=network)
    export_model(run.stage, run.paths, run.target)
    change_weight(run, name, change)
    message = proof_error(run)
    assert "logits of the exported model differ" in message
    assert f"is {module} (by" in message


@pytest.mark.parametrize(
    ("network", "name", "change", "module"),
    [
        ({}, "transformer.h.1.self_attention.dense.bias", lambda t: t * 2, "h.1.self_attention.dense"),
        (NEOX, "gpt_neox.layers.0.attention.dense.weight", lambda t: t.flip(0), "h.0.self_attention.dense"),
        (GPT2, "transformer.wpe.weight", lambda t: torch.cat((t[:28], t[28:].flip(0))), "position_embeddings"),
        (GPT2, "transformer.h.1.attn.c_attn.bias", lambda t: t.flip(0), "h.1.self_attention.query_key_value"),
    ],
)
def test_a_wrong_weight_is_named_by_its_module_if_samples_have_several_spans(
    fabricate, monkeypatch, network, name, change, module
):
    for model in ("written_model", "split_model"):
        monkeypatch.setattr(f"export.proof.{model}.SPAN_POSITIONS", 5)
    run = fabricate(network=network)
    export_model(run.stage, run.paths, run.target)
    change_weight(run, name, change)
    assert f"is {module} (by" in proof_error(run)


@pytest.mark.parametrize(
    ("network", "key", "value", "module"),
    [
        (NEOX, "rope_parameters", {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}, "dense"),
        (NEOX, "use_parallel_residual", True, "post_attention_layernorm"),
        (GPT2, "activation_function", "relu", "mlp.dense_4h_to_h"),
        ({}, "layer_norm_epsilon", 0.5, "word_embeddings_layernorm"),
    ],
)
def test_a_wrong_value_of_config_json_is_named_by_the_first_module_that_it_changes(
    fabricate, network, key, value, module
):
    run = fabricate(network=network)
    export_model(run.stage, run.paths, run.target)
    path = run.target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    message = proof_error(run)
    assert f"{module} (by" in message


def test_reference_logits_of_other_weights_are_reported_as_such(fabricate):
    run = fabricate()
    path = run.checkpoint / "reference.safetensors"
    export_model(run.stage, run.paths, run.target)
    tensors = load_file(path)
    tensors["logits"] = torch.randn(tensors["logits"].shape)
    save_file({key: tensors[key] for key in ("tokens", "logits")}, path)
    assert "the reference logits belong to other weights" in proof_error(run)
