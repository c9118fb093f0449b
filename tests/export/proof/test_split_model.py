"""Test that the forward pass of the pieces does not depend on how samples are divided."""

from __future__ import annotations

import pytest
import torch

from bloomery.checkpoint.weights import Checkpoint
from export.proof.split_model import SplitModel

NETWORKS = [
    {},
    {"positions": "rotary", "embedding_layernorm": False},
    {"positions": "learned", "embedding_layernorm": False},
]


def states_and_outputs(run):
    generator = torch.Generator().manual_seed(4)
    entries = run.manifest.vocabulary_size
    samples = [torch.randint(entries, (length,), generator=generator) for length in (32, 7, 5, 32, 11)]
    outputs = {}

    def observe(name, sample, value):
        outputs[name, sample] = value.clone()

    return SplitModel(Checkpoint(run.checkpoint)).hidden(samples, observe), outputs


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_spans_and_groups_of_samples_do_not_change_the_result(fabricate, monkeypatch, network):
    run = fabricate(network=network)
    expected, whole = states_and_outputs(run)
    monkeypatch.setattr("export.proof.split_model.SPAN_POSITIONS", 5)
    monkeypatch.setattr("export.proof.split_model.BATCH_POSITIONS", 12)
    found, divided = states_and_outputs(run)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert divided.keys() == whole.keys()
    for key, value in whole.items():
        torch.testing.assert_close(divided[key], value, rtol=1e-5, atol=1e-5 * float(value.abs().max()))
