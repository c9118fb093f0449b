"""Test that samples in spans give the logits of transformers' forward pass over whole samples."""

from __future__ import annotations

import pytest
import torch
from fabricated_export import random_model
from state_dict_weights import StateDictWeights

from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from bloomery.spec.transformers_families.choose import family_for_export
from export.proof.forward_model import head_logits
from export.proof.written_model import WrittenModel

ROWS = 80
BLOOM = {}
NEOX = {"positions": "rotary", "embedding_layernorm": False}
GPT2 = {"positions": "learned", "embedding_layernorm": False}
NETWORKS = [each | {"tied_embeddings": tied} for each in (BLOOM, NEOX, GPT2) for tied in (True, False)]
LENGTHS = (32, 32, 31, 5, 32, 4)
"""Lengths of the samples. With spans of 5 positions, the last span of a sample has 1, 2, 4 or 5 positions."""

pytestmark = pytest.mark.slow


def models(network):
    """Return transformers' model with random weights, and the model of the proof with the same weights."""
    shape = {"layers": 2, "hidden_size": 32, "heads": 4, "sequence_length": 32}
    model = ModelConfig.model_validate(shape | network)
    whole, family = random_model(model, ROWS, torch.float32), family_for_export(model)
    whole.config.architectures = [family.architecture]
    written = WrittenModel(StateDictWeights(whole), whole.config, family, declare(model, ROWS), model.heads)
    return whole, written


def samples():
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(ROWS, (length,), generator=generator) for length in LENGTHS]


def outputs(model):
    """Return the outputs of all modules, by module and number of the sample, in the order of the reports."""
    found = {}

    def observe(name, sample, value):
        assert (name, sample) not in found
        found[name, sample] = value.clone()

    model.hidden(samples(), observe)
    return found


@pytest.mark.parametrize("positions", [5, 512])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_logits_are_those_of_transformers_for_whole_samples(monkeypatch, network, positions):
    monkeypatch.setattr("export.proof.written_model.SPAN_POSITIONS", positions)
    whole, written = models(network)
    for tokens, state in zip(samples(), written.hidden(samples()), strict=True):
        with torch.inference_mode():
            expected = whole(input_ids=tokens[None]).logits[0]
        logits = head_logits(written, state)
        assert float((logits - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


@pytest.mark.parametrize("network", NETWORKS)
def test_each_module_reports_whole_outputs_if_samples_have_several_spans(monkeypatch, network):
    _, written = models(network)
    expected = outputs(written)
    monkeypatch.setattr("export.proof.written_model.SPAN_POSITIONS", 5)
    found = outputs(written)
    assert list(found) == list(expected)
    assert {name for name, _ in found} >= {"word_embeddings", "h.1.mlp.dense_4h_to_h", "ln_f"}
    for (_, sample), value in found.items():
        assert len(value) == LENGTHS[sample]
    for key, value in expected.items():
        assert found[key].shape == value.shape
        torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-5 * float(value.abs().max()))
