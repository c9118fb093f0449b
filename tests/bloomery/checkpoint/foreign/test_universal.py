"""Test that universal checkpoints of DeepSpeed are found and checked."""

from __future__ import annotations

import pytest
import torch
from fabricated_megatron import ENTRIES, GPT2, fabricate_universal

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.foreign.universal import Universal


def test_parameters_are_the_fp32_weights_or_are_rounded_to_the_type_of_the_training(tmp_path):
    made = fabricate_universal(tmp_path, GPT2)
    exact, rounded = Universal(made.folder), Universal(made.folder, rounded=True)
    exact.inspect()
    rounded.inspect()
    assert (exact.dtype, rounded.dtype, exact.rows, exact.ranks) == ("float32", "bfloat16", ENTRIES, 1)
    for parameter in exact.parameters:
        master = made.masters[parameter.name]
        expected = master[:ENTRIES] if parameter.name == "word_embeddings.weight" else master
        assert torch.equal(exact.weight(parameter, torch.float32), expected)
        assert torch.equal(rounded.weight(parameter, torch.bfloat16), expected.bfloat16())
    words = exact.parameters[0]
    part = rounded.weight(words, torch.bfloat16, range(3, 8))
    assert torch.equal(part, made.masters[words.name][3:8].bfloat16())
    assert torch.equal(rounded.shards(words)[0], made.masters[words.name][:ENTRIES].bfloat16())
    assert (exact.stored_dtype, rounded.stored_dtype) == ("float32", "float32")


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("3.mlp.dense_4h_to_h.bias", remove, "lacks the parameter mlp.dense_4h_to_h.bias of layer 3"),
        ("tied_modules.embed.word_embeddings.weight", remove, "the tied layer holds the tensors"),
        ("4.mlp.dense_4h_to_h.bias", lambda path: torch.save(torch.ones(24), path), "contains a Tensor"),
        ("4.mlp.dense_4h_to_h.bias", lambda path: torch.save({"weight": torch.ones(24)}, path), "no tensor 'param'"),
        ("4.mlp.dense_4h_to_h.bias", lambda path: torch.save({"param": torch.ones(23)}, path), r"shape \(23,\)"),
        ("unknown", None, "parameter unknown states no layer"),
        ("4.other", None, "unexpected parameter 4.other"),
    ],
)
def test_wrong_parameters_are_named(tmp_path, name, change, message):
    made = fabricate_universal(tmp_path)
    path = made.folder / "zero" / name / "fp32.pt"
    if change is None:
        path.parent.mkdir()
        torch.save({"param": torch.ones(2)}, path)
    else:
        change(path)
    with pytest.raises((InputError, CheckFailedError), match=message):
        Universal(made.folder).inspect()
