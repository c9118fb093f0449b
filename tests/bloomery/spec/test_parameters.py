"""Test the declared parameters of every family and the formula for their number."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare, layer_count, padded_vocabulary, parameter_count


@st.composite
def models(draw: st.DrawFn) -> ModelConfig:
    family = draw(st.sampled_from(["gpt", "bert", "t5"]))
    heads = draw(st.integers(1, 8))
    values: dict[str, Any] = {
        "family": family,
        "layers": draw(st.integers(1, 6)),
        "heads": heads,
        "hidden_size": heads * 2 * draw(st.integers(1, 8)),
        "feed_forward_size": draw(st.none() | st.integers(1, 300)),
        "sequence_length": draw(st.integers(8, 64)),
    }
    if family == "gpt":
        values["positions"] = draw(st.sampled_from(["alibi", "learned", "rotary"]))
        values["embedding_layernorm"] = draw(st.booleans())
        values["activation"] = draw(st.sampled_from(["gelu", "swiglu"]))
        values["tied_embeddings"] = draw(st.booleans())
    else:
        values |= {"positions": "learned", "embedding_layernorm": False}
    if family == "t5":
        values |= {"decoder_layers": draw(st.integers(1, 6)), "decoder_sequence_length": 16}
    return ModelConfig(**values)


@given(models(), st.integers(1, 500))
def test_the_declared_parameters_equal_the_formula(model: ModelConfig, rows: int) -> None:
    declared = declare(model, rows)
    assert sum(each.count for each in declared) == parameter_count(model, rows)
    assert len({each.name for each in declared}) == len(declared)
    layers = {layer for each in declared for layer in (each.layer, *each.tied_layers)}
    assert layers <= set(range(layer_count(model)))


def test_bert_and_t5_have_the_published_number_of_parameters() -> None:
    # BERT-large has 336 M parameters (Shoeybi et al. 2019, Megatron-LM, table 4), and T5-small has 60 M (Raffel et
    # al.).
    for name, millions in (("bert-large", 336), ("t5-small", 60), ("bert-85l", 1105)):
        config = load_config(ROOT / f"config/models/{name}.yaml")
        rows = 30_720 if name == "t5-small" else 30_592
        assert round(parameter_count(config.model, rows) / 1e6) == millions


def test_parameters_are_declared_once_and_split_without_loss() -> None:
    model = ModelConfig(layers=3, hidden_size=32, heads=4, sequence_length=8)
    rows = padded_vocabulary(1000, model, 2)
    assert rows == 1024
    parameters = declare(model, rows)
    assert len({parameter.name for parameter in parameters}) == len(parameters)
    assert sum(parameter.count for parameter in parameters) == parameter_count(model, rows)
    for parameter in parameters:
        shards = [parameter.shard_shape(2) for _ in range(2)]
        whole = sum(a * (b[0] if b else 1) for a, *b in shards)
        assert whole == parameter.count * (2 if parameter.placement.dimension is None else 1)
        assert parameter.decays == (len(parameter.shape) == 2)
