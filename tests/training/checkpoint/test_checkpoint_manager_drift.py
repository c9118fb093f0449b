"""Test that a saved checkpoint whose copies differ is skipped when a training loads its checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import list_files_again
from fabricated_training import stage
from ranks import RankError, run_ranks
from safetensors.torch import load_file, save_file
from segments import opened

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

LAYOUT = stage(data=2, samples=48, checkpoint={"every_iterations": 2}, guards={"replicas_every_iterations": None})


def _train(configuration, folder):
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        train(run)


def _load(configuration, folder):
    """Load the newest good checkpoint. Return the iteration and whether all copies are equal."""
    with opened(configuration, folder) as run:
        run.check_replicas()
        return run.position.iteration


def _seal_with_other_random_numbers(checkpoint: Path) -> None:
    """Change the random numbers of rank 1 in a checkpoint, and make its manifest match."""
    path = checkpoint / "random_rank_00001.safetensors"
    numbers = load_file(path)
    numbers["numpy"][7] += 1
    save_file(numbers, path)
    list_files_again(checkpoint)


def test_a_checkpoint_with_different_copies_is_skipped_and_the_error_names_the_repair(tmp_path):
    run_ranks(_train, 2, LAYOUT, tmp_path)
    checkpoints = sorted((tmp_path / "train" / "checkpoints").glob("step*"))
    assert [path.name for path in checkpoints] == ["step00000002", "step00000004"]
    _seal_with_other_random_numbers(checkpoints[1])
    assert run_ranks(_load, 2, LAYOUT, tmp_path) == [2, 2]
    _seal_with_other_random_numbers(checkpoints[0])
    with pytest.raises(RankError) as refused:
        run_ranks(_load, 2, LAYOUT, tmp_path)
    said = str(refused.value)
    assert "the random number state (numpy) on rank 1 differs from that on rank 0" in said
    newest = f"--run {tmp_path} --checkpoint step00000004 --on-drift mean-fp32"
    assert f"bloomery checkpoint repair {newest}" in said
