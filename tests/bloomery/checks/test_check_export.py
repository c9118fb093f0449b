"""Test that a network without an exact class of transformers is refused, with the nearest keys that have one."""

from __future__ import annotations

from typing import Any

import pytest
from changed_sample import changed, message

from bloomery.checks.load_config import validate_config


@pytest.mark.parametrize(
    ("model", "has", "wanted", "architecture"),
    [
        ({"activation": "swiglu"}, "model.activation 'swiglu'", "model.activation 'gelu'", "BloomForCausalLM"),
        ({"positions": "learned"}, "model.embedding_layernorm true", "model.embedding_layernorm false", "GPT2LMHead"),
        ({"positions": "rotary"}, "model.embedding_layernorm true", "model.embedding_layernorm false", "GPTNeoXFor"),
        ({"feed_forward_size": 128}, "model.feed_forward_size 128", "model.feed_forward_size 512", "BloomForCausalLM"),
    ],
    ids=["swiglu", "learned", "rotary", "width"],
)
def test_a_network_without_an_exact_class_is_refused_with_the_nearest_keys(
    model: dict[str, Any], has: str, wanted: str, architecture: str
) -> None:
    values = {f"model__{key}": value for key, value in model.items()}
    text = message(changed(**values))
    assert f"no class of transformers computes this network exactly ({has})" in text
    assert f"{wanted}, which {architecture}" in text
    assert "or export.enabled false" in text
    assert not validate_config(changed(**values, export={"enabled": False}), where="my.yaml").export.enabled


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", ["alibi", "learned", "rotary"])
def test_a_network_that_a_class_computes_is_accepted(positions: str, *, tied: bool) -> None:
    changes = {"positions": positions, "tied_embeddings": tied, "embedding_layernorm": positions == "alibi"}
    validate_config(changed(**{f"model__{key}": value for key, value in changes.items()}), where="my.yaml")
