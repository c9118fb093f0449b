"""Test that the layer files of Megatron-DeepSpeed are found, checked and merged."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from fabricated_export import canonical_weights
from fabricated_megatron import GPT2, ROWS, fabricate_layers

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.foreign.layer_files import LayerFiles, layer_files

NORM = "post_attention_layernorm.bias"


def test_layers_and_ranks_are_sorted_as_numbers(tmp_path):
    made = fabricate_layers(tmp_path, ranks=12, layers=101)
    found = LayerFiles(made.folder)
    assert found.places.blocks == tuple(range(3, 104))
    assert [path.name for path in layer_files(made.folder)[103]][-2:] == [
        "layer_103-model_10-model_states.pt",
        "layer_103-model_11-model_states.pt",
    ]
    weights = canonical_weights(made.whole, made.model, ROWS)
    last = [parameter for parameter in found.parameters if parameter.name.startswith("h.100.")]
    assert len(last) == 12
    for parameter in [found.parameters[0], *last]:
        assert torch.equal(found.weight(parameter, torch.float32), weights[parameter.name]), parameter.name


def test_every_replica_that_drifted_is_named(tmp_path):
    made = fabricate_layers(tmp_path, GPT2, ranks=3)
    made.edit(4, 1, lambda state: state[NORM].add_(0.5))
    made.edit(1, 2, lambda state: state["position_embeddings.weight"].mul_(-1))
    with pytest.raises(DriftError) as caught:
        LayerFiles(made.folder).inspect()
    assert "of 2 parameters" in str(caught.value)
    assert f"h.1.{NORM} (by up to 0.5" in str(caught.value)
    assert "position_embeddings.weight" in str(caught.value)


def test_a_replica_that_is_not_a_number_differs(tmp_path):
    made = fabricate_layers(tmp_path)
    made.edit(3, 1, lambda state: state[NORM].fill_(float("nan")))
    with pytest.raises(DriftError, match="by up to nan"):
        LayerFiles(made.folder).inspect()


def rename(state):
    state["self_attention.other"] = state.pop("self_attention.dense.bias")


def drop(state):
    del state["self_attention.dense.bias"]


def shorten(state):
    state["self_attention.dense.bias"] = state["self_attention.dense.bias"][1:].clone()


def widen(state):
    state["self_attention.dense.bias"] = state["self_attention.dense.bias"].float()


def add(state):
    state["other.weight"] = torch.ones(2)


def add_number(state):
    state["step"] = 3


@pytest.mark.parametrize(
    ("layer", "rank", "change", "message"),
    [
        (3, 1, rename, "unexpected tensor self_attention.other"),
        (3, 1, drop, "lacks the tensor self_attention.dense.bias"),
        (4, 1, shorten, r"rank 1 holds h.1.self_attention.dense.bias with shape \(23,\)"),
        (4, 1, widen, "type torch.float32"),
        (4, 1, add_number, "the entry 'step' is no tensor"),
        (4, 0, add_number, "the entry 'step' is no tensor"),
        (1, 0, add, "layer 1 holds the tensors other.weight"),
    ],
)
def test_wrong_tensors_are_named(tmp_path, layer, rank, change, message):
    made = fabricate_layers(tmp_path)
    made.edit(layer, rank, change)
    with pytest.raises((CheckFailedError, InputError), match=message):
        LayerFiles(made.folder).inspect()


@pytest.mark.parametrize(
    ("layer", "rank", "message"),
    [
        (3, 1, "layer 3 has no file of tensor rank 1, although there are 2 tensor ranks"),
        (3, None, "num_layers is 2, but the files hold 1 blocks"),
        (1, None, "token embedding: 0"),
        (6, None, "final LayerNorm: 0"),
    ],
)
def test_missing_files_are_named(tmp_path, layer, rank, message):
    made = fabricate_layers(tmp_path)
    for each in (0, 1) if rank is None else (rank,):
        made.path(layer, each).unlink()
    with pytest.raises(InputError, match=message):
        LayerFiles(made.folder)


def test_a_rank_beyond_the_number_of_files_is_an_error_without_counting_to_it(tmp_path):
    made = fabricate_layers(tmp_path)
    name = "layer_01-model_99999999999-model_states.pt"
    made.path(1, 0).rename(made.folder / name)
    with pytest.raises(InputError, match=f"{name} is a file of tensor rank 99999999999, but the folder has only 8 "):
        layer_files(made.folder)


def test_two_files_of_the_same_layer_and_rank_are_an_error(tmp_path):
    made = fabricate_layers(tmp_path)
    shutil.copy(made.path(1, 0), made.folder / "layer_1-model_00-model_states.pt")
    message = r"layer_01-model_00-model_states\.pt and layer_1-model_00-model_states\.pt are both the file of layer 1"
    with pytest.raises(InputError, match=message):
        layer_files(made.folder)


def test_a_file_that_changes_after_it_was_hashed_is_an_error(tmp_path):
    made = fabricate_layers(tmp_path)
    found = LayerFiles(made.folder)
    found.inspect()
    path = made.path(3, 0)
    path.write_bytes(path.read_bytes())
    os.utime(path, (1, 1))
    words, *_, block = found.parameters[:4]
    found.weight(words, torch.float32)
    with pytest.raises(CheckFailedError, match="has changed since it was hashed"):
        found.weight(block, torch.float32)


def test_rows_of_the_embedding_can_be_read_across_tensor_ranks(tmp_path):
    made = fabricate_layers(tmp_path, ranks=4)
    found = LayerFiles(made.folder)
    words, wanted = found.parameters[0], range(ROWS // 4 - 3, ROWS // 2 + 5)
    expected = canonical_weights(made.whole, made.model, ROWS)[words.name][wanted.start : wanted.stop]
    out = torch.empty(expected.shape)
    assert found.weight(words, torch.float32, wanted, out=out) is out
    assert torch.equal(out, expected)
