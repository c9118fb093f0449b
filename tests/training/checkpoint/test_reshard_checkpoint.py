"""Test that a resharded checkpoint has the files that a training writes, and that a training resumes from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_manifests import list_files_again
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, steps
from typer.testing import CliRunner

from bloomery.base.errors import InputError
from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.optimizer_state import OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.cli import app
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint, step_folders
from bloomery.contracts.file_entry import FileEntry
from training.checkpoint.repair_tensors import open_to_save
from training.checkpoint.reshard_checkpoint import reshard_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ALONE, WIDE = stage(samples=32), stage(samples=64, tensor=2, pipeline=2)


def _train(configuration: TrainStage, folder: Path) -> None:
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        train(run)


def _newest(run: Path) -> Path:
    return step_folders(run / "train" / "checkpoints")[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train with one process. Return the run's folder."""
    run: Path = tmp_path_factory.mktemp("trained") / "run"
    run_ranks(_train, 1, ALONE, run)
    return run


def _training_files(manifest: CheckpointManifest) -> dict[str, FileEntry]:
    """Return the files that DeepSpeed saves."""
    return {name: entry for name, entry in manifest.files.items() if name.endswith(".pt")}


def _same_tensors(first: Path, second: Path) -> None:
    one, other = Checkpoint(first), Checkpoint(second)
    states = OptimizerState(one), OptimizerState(other)
    assert states[0].kinds == states[1].kinds == ("master", "exp_avg", "exp_avg_sq")
    for parameter in one.parameters:
        assert torch.equal(one.weight(parameter, torch.bfloat16), other.weight(parameter, torch.bfloat16))
        for kind in states[0].kinds:
            assert torch.equal(states[0].part(parameter, kind), states[1].part(parameter, kind))


@pytest.mark.parametrize(("precision", "replicas"), [("bf16", 3), ("fp16", 3), ("fp32", 1)])
def test_a_checkpoint_resharded_to_its_own_layout_has_the_bytes_that_the_training_wrote(
    tmp_path: Path, precision: str, replicas: int
) -> None:
    batch = {"micro_batch_size": 2, "global_batch_size": 12}
    run_ranks(_train, replicas, stage(samples=36, data=replicas, precision=precision, batch=batch), tmp_path / "run")
    source = _newest(tmp_path / "run")
    done = reshard_checkpoint(source, tmp_path / "new", tensor=1, pipeline=1)
    assert len(_training_files(done)) == 6 + replicas
    assert done == read_checkpoint(source)


def test_a_checkpoint_resharded_and_back_is_equal_and_a_training_resumes_with_the_same_losses(
    trained: Path, tmp_path: Path
) -> None:
    source = _newest(trained)
    wide, back = tmp_path / "wide", tmp_path / "back"
    done = reshard_checkpoint(source, wide, tensor=2, pipeline=2)
    assert [(each.key, each.before, each.after) for each in done.changes] == [
        ("training.parallel.pipeline", 1, 2),
        ("training.parallel.tensor", 1, 2),
    ]
    _same_tensors(source, wide)
    assert reshard_checkpoint(wide, back, tensor=1, pipeline=1).files == read_checkpoint(source).files
    losses, saved = [], []
    for name in ("original", "resharded"):
        shutil.copytree(trained, tmp_path / name)
        if name == "resharded":
            target = _newest(tmp_path / name)
            shutil.rmtree(target)
            wide.rename(target)
        run_ranks(_train, 4, WIDE, tmp_path / name)
        found: dict[int, dict[str, Any]] = steps(tmp_path / name)
        losses.append({iteration: (each["loss"], each["grad_norm"]) for iteration, each in found.items()})
        saved.append(_training_files(read_checkpoint(_newest(tmp_path / name))))
    assert max(losses[0]) > done.iteration
    assert losses[0] == losses[1]
    assert saved[0] == saved[1]


def test_the_command_writes_a_checkpoint_once_and_refuses_impossible_layouts(trained: Path, tmp_path: Path) -> None:
    source, target = str(_newest(trained)), tmp_path / "new"

    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["checkpoint", "reshard", source, "--output", str(target), *options])

    for tensor, pipeline, data, problem in (
        ("3", "1", "1", "model.heads 4 must be divisible by training.parallel.tensor 3"),
        ("1", "3", "1", "model.layers 2 cannot fill the pipeline stages"),
        ("1", "1", "3", "batch sizes 8, 16 are not divisible by"),
    ):
        refused = run("--tensor", tensor, "--pipeline", pipeline, "--data", data)
        assert isinstance(refused.exception, InputError)
        assert problem in str(refused.exception)
        assert not target.exists()
    done = run("--tensor", "1", "--pipeline", "2", "--data", "2")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert f"wrote {target}: 16 files for 1 tensor x 2 pipeline x 2 data ranks" in done.stderr
    _same_tensors(Path(source), target)
    again = run("--tensor", "1", "--pipeline", "2")
    assert isinstance(again.exception, InputError)
    assert "the output exists already" in str(again.exception)


def test_a_checkpoint_whose_copies_differ_is_refused(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(_newest(trained), tmp_path / "drifted")
    path = tmp_path / "drifted" / "layer_03-model_00-model_states.pt"
    state = open_to_save(path)
    state["mlp.dense_h_to_4h.weight"][3, 5] += 1
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    list_files_again(tmp_path / "drifted")
    with pytest.raises(DriftError, match=r"h\.1\.mlp\.dense_h_to_4h\.weight differ from their fp32 master weights"):
        reshard_checkpoint(tmp_path / "drifted", tmp_path / "new", tensor=2, pipeline=1)
    assert not (tmp_path / "new").exists()
