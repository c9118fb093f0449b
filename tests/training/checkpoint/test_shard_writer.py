"""Test the files that one rank writes."""

from __future__ import annotations

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
