"""Test the names and shapes of BLOOM's parameters in transformers."""

from __future__ import annotations

import pytest

from bloomery.base.errors import CheckFailedError, ConfigError
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from export.mapping.bloom import INVERSE, TABLE, check_exportable, to_canonical, to_transformers


def test_the_mapping_is_one_to_one_for_every_declared_parameter():
    model = ModelConfig(layers=120, hidden_size=32, heads=4, sequence_length=32)
    ours = [parameter.name for parameter in declare(model, 64)]
    theirs = [to_transformers(name) for name in ours]
    assert len(set(theirs)) == len(ours) == 5 + 12 * 120
    assert [to_canonical(name) for name in theirs] == ours
    assert "transformer.h.107.self_attention.dense.bias" in theirs
    assert len(TABLE) == len(INVERSE)


@pytest.mark.parametrize("name", ["h.3.self_attention.rotary.weight", "position_embeddings.weight"])
def test_a_name_without_a_counterpart_is_refused(name):
    with pytest.raises(CheckFailedError, match="no counterpart"):
        to_transformers(name)


def test_a_network_that_transformers_would_build_differently_is_refused():
    from transformers import BloomConfig

    model = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32)
    check_exportable(model, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4))
    with pytest.raises(
        CheckFailedError, match=r"the shape of transformer\.h\.2\..* is \(no such parameter\) in the training"
    ):
        check_exportable(model, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=3, n_head=4))
    # This network has the same names and shapes, but computes another function.
    rotary = model.model_copy(update={"positions": "rotary"})
    with pytest.raises(ConfigError, match=r"not exported yet: model\.positions rotary"):
        check_exportable(rotary, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4))
