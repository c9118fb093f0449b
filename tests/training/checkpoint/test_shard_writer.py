"""Test the files that one rank writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.config.training_loop import CheckpointConfig
from training.checkpoint.seal_checkpoint import CheckpointFolders


def test_a_rank_creates_a_missing_folder(tmp_path):
    import torch

    from training.checkpoint.shard_writer import ShardWriter

    writer, work = ShardWriter(), CheckpointFolders(tmp_path, CheckpointConfig()).work(3)
    writer.begin(work, background=False)
    writer.save_tensors({"x": torch.zeros(2)}, work / "x.safetensors")
    assert writer.problem is None
    assert list(writer.files) == ["x.safetensors"]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("form", ["state", "tensors", "other replica"])
def test_a_value_that_is_not_finite_is_a_failed_write(tmp_path: Path, background: bool, form: str) -> None:
    import torch

    from training.checkpoint.shard_writer import NotFiniteError, ShardWriter

    writer = ShardWriter()
    good, bad = torch.zeros(3), torch.tensor([0.0, float("nan"), 1.0])
    writer.begin(tmp_path, background=background)
    writer.save({"fine": good, "nested": [{"x": good}]}, str(tmp_path / "first.pt"))
    if form == "state":
        writer.save({"fine": good, "nested": [{"x": bad}]}, str(tmp_path / "second.pt"))
    elif form == "tensors":
        writer.save_tensors({"logits": bad}, tmp_path / "second.pt")
    else:
        writer.note_not_finite("weight x")
    # The background save holds copies. The writer finds the NaN, although the training has overwritten the state.
    bad.zero_()
    writer.save_tensors({"fine": good}, tmp_path / "third.safetensors")
    writer.end()
    writer.join()
    assert isinstance(writer.problem, NotFiniteError)
    named = {"state": "tensor nested/0/x of the file second.pt", "tensors": "tensor logits of the file second.pt"}
    assert str(writer.problem) == named.get(form, "weight x")
    assert form == "other replica" or "second.pt" not in writer.files
    assert "third.safetensors" not in writer.files
    # The next save begins without the problem of this one.
    writer.begin(tmp_path, background=False)
    assert writer.problem is None
