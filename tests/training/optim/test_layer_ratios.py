"""Test the summary of trust ratios by layer."""

from __future__ import annotations

import pytest
from fabricated_training import stage

from bloomery.spec.parameters import declare
from training.optim.layer_ratios import layer_ratios


def test_each_layer_has_its_least_median_and_greatest_ratio() -> None:
    model = stage().model.model_copy(update={"tied_embeddings": False, "layers": 2})
    parameters = declare(model, 64)
    found = layer_ratios(parameters, [1.0 + number for number in range(len(parameters))])
    assert list(found) == ["embedding", "block 0", "block 1", "final norm", "head"]
    assert found["embedding"] == (1.0, 2.0, 3.0)
    assert found["block 0"] == (4.0, pytest.approx(9.5), 15.0)
    assert found["head"][0] == found["head"][2] == len(parameters)


def test_ratios_have_six_digits() -> None:
    parameters = declare(stage().model, 64)
    found = layer_ratios(parameters, [1 / 3] * len(parameters))
    assert set(found.values()) == {(0.333333, 0.333333, 0.333333)}
