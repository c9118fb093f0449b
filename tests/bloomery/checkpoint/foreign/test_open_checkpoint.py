"""Test that the layout of a foreign checkpoint is recognised."""

from __future__ import annotations

import pytest
from fabricated_megatron import fabricate_layers, fabricate_universal

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.open_checkpoint import open_checkpoint


def test_the_layout_and_the_type_are_recognised(tmp_path):
    layers, universal = fabricate_layers(tmp_path), fabricate_universal(tmp_path)
    assert open_checkpoint(layers.folder, None, None).kind == "layer files of Megatron-DeepSpeed"
    found = [open_checkpoint(universal.folder, dtype, None) for dtype in (None, "float32", "bfloat16", "float16")]
    assert {each.kind for each in found} == {"universal checkpoint of DeepSpeed"}
    assert [each.dtype for each in found] == ["float32", "float32", "bfloat16", "float32"]


def test_other_folders_are_refused_with_what_would_be_right(tmp_path):
    made = fabricate_layers(tmp_path)
    for folder, message in (
        (tmp_path / "absent", "no such folder"),
        (tmp_path, "this folder contains global_step95000"),
    ):
        with pytest.raises(InputError, match=message):
            open_checkpoint(folder, None, None)
    (made.folder / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="bloomery export model"):
        open_checkpoint(made.folder, None, None)
