"""Test the number of embedding rows of a resumed training."""

from __future__ import annotations

import pytest

from bloomery.base.errors import ConfigError
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import padded_vocabulary

MODEL = ModelConfig(layers=3, hidden_size=12, heads=4, sequence_length=8, vocabulary_multiple=8)


def test_a_resumed_training_keeps_its_number_of_embedding_rows() -> None:
    from types import SimpleNamespace

    assert embedding_rows(None, 33, MODEL, 2) == padded_vocabulary(33, MODEL, 2) == 48
    manifest = SimpleNamespace(vocabulary_rows=48, tensor_parallel=2)
    assert embedding_rows(manifest, 33, MODEL, 4) == 48  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"5 does not divide the 48 embedding rows .* one of 1, 2, 3, 4, 6, 8;"):
        embedding_rows(manifest, 33, MODEL, 5)  # type: ignore[arg-type]
