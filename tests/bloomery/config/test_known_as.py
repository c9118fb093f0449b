"""Test that a key's names in other projects lead to the key."""

from __future__ import annotations

import pytest
from changed_sample import changed, message

from bloomery.config.known_as import KNOWN_AS, NOTES, key_known_as
from bloomery.config.run import RunConfig
from bloomery.config.suggest_key import key_paths


def test_every_target_exists_and_every_name_has_one_target() -> None:
    known = set(key_paths(RunConfig))
    assert set(KNOWN_AS) <= known
    names = [name for found in KNOWN_AS.values() for name in found]
    assert len(names) == len(set(names)) > 200
    assert all(name == name.lower() and "-" not in name for name in names)
    assert set(NOTES) <= set(names)


def test_a_name_is_found_whatever_its_dashes_and_capitals() -> None:
    assert key_known_as("--Num-Layers".lstrip("-")) == ("model.layers", "")
    assert key_known_as("no_such_name") is None


@pytest.mark.parametrize(
    ("place", "name", "right"),
    [
        ("training__", "lr", "training.optimizer.learning_rate"),
        ("", "micro_batch", "training.batch.micro_batch_size"),
        ("training__", "tp", "training.parallel.tensor"),
        ("training__parallel__", "pp", "training.parallel.pipeline"),
        ("", "dp", "training.parallel.data"),
        ("model__", "n_layer", "model.layers"),
        ("model__", "num_layers", "model.layers"),
        ("model__", "n_embd", "model.hidden_size"),
        ("", "hidden_dim", "model.hidden_size"),
        ("model__", "num_attention_heads", "model.heads"),
        ("training__", "seq_length", "model.sequence_length"),
        ("model__", "max_position_embeddings", "model.sequence_length"),
        ("model__", "vocab_size", "tokenizer.vocabulary_size"),
        ("training__", "train_iters", "training.train_samples"),
        ("training__", "global_batch", "training.batch.global_batch_size"),
        ("training__", "zero", "training.zero_stage"),
        ("", "bf16", "training.precision"),
        ("training__", "seed", "seed"),
        ("training__optimizer__", "clip_grad", "training.optimizer.gradient_clipping"),
        ("training__", "warmup", "training.optimizer.warmup_samples"),
        ("training__checkpoint__", "save_interval", "training.checkpoint.every_iterations"),
    ],
)
def test_an_unknown_key_of_another_project_is_answered_with_ours(place: str, name: str, right: str) -> None:
    assert f"{name}: unknown key (value 1); did you mean {right!r}?" in message(changed(**{f"{place}{name}": 1}))


def test_a_value_that_counts_something_else_is_explained() -> None:
    expected = "the suggested key takes a number of samples: iterations x training.batch.global_batch_size"
    assert expected in message(changed(train_iters=500))
    assert "the suggested key takes 'bf16', 'fp16' or 'fp32'" in message(changed(training__bf16=True))
