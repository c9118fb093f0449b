"""Test that a checkpoint whose copies differ can be repaired, and that a training resumes from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_manifests import files_of, list_files_again
from fabricated_training import stage
from ranks import RankError, run_ranks
from safetensors.torch import load_file, save_file
from segments import opened
from typer.testing import CliRunner
from word_tokenizer import write_word_tokenizer

from bloomery.base.errors import CheckFailedError, TryAgainError
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.cli import app
from bloomery.config.delivery import ExportConfig
from bloomery.config.stages import ExportStage
from bloomery.contracts.checkpoint import REFERENCE_NAME, lacks_reference, read_checkpoint
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.paths import RunPaths
from export.export_model import export_model
from training.checkpoint.repair_checkpoint import repair_checkpoint
from training.checkpoint.repair_tensors import open_to_save
from training.loop.hold_lease import lease
from training.resume.complete_repairs import complete_repairs

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

LAYOUT = stage(tensor=2, samples=48, checkpoint={"every_iterations": 4})
NORM = "h.0.input_layernorm.weight"
OPTIMIZER = "bf16_zero_pp_rank_0_mp_rank_{:02d}_optim_states.pt"


def _train(configuration, folder):
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        train(run)


def _load(configuration, folder):
    """Load the newest checkpoint. Return the position and the trained weights of this rank."""
    with opened(configuration, folder) as run:
        return run.position.iteration


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train without drift, and then make copies in the only checkpoint differ. Return the run's folder."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    run_ranks(_train, 2, LAYOUT, folder)
    checkpoint = max((folder / "train" / "checkpoints").glob("step*"))
    for other in (folder / "train" / "checkpoints").glob("step*"):
        if other != checkpoint:
            shutil.rmtree(other)
    _drift(checkpoint)
    return folder


@contextmanager
def open_saved(path: Path, *, save: bool = True) -> Iterator[dict[str, Any]]:
    """Open a checkpoint's file. With `save`, save it again at the end."""
    state = open_to_save(path)
    yield state
    if save:
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)


def _drift(checkpoint: Path) -> None:
    """Change states of tensor rank 1: master weights and a moment of a norm, a split weight, and random numbers."""
    with open_saved(checkpoint / OPTIMIZER.format(1)) as state:
        optimizer = state["optimizer_state_dict"]
        start = optimizer["param_slice_mappings"][1]["2.input_layernorm.weight"].start
        optimizer["single_partition_of_fp32_groups"][1][start : start + 4] += 0.5
        optimizer["base_optimizer_state"]["state"][1]["exp_avg"][start + 7] += 0.25
    with open_saved(checkpoint / "layer_03-model_01-model_states.pt") as state:
        state["mlp.dense_h_to_4h.weight"][3, 5] += 1
    numbers = load_file(checkpoint / "random_rank_00001.safetensors")
    numbers["torch"][40] += 1
    save_file(numbers, checkpoint / "random_rank_00001.safetensors")
    list_files_again(checkpoint)


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return RunPaths(tmp_path / "run")


def _only(paths: RunPaths) -> Path:
    (checkpoint,) = paths.checkpoints.glob("step*")
    return checkpoint


def _norm(checkpoint: Path, kind: str) -> list[torch.Tensor]:
    """Return the norm's state of a kind on each tensor rank, read without the reader that refuses different copies."""
    found = []
    for rank in (0, 1):
        with open_saved(checkpoint / OPTIMIZER.format(rank), save=False) as state:
            optimizer = state["optimizer_state_dict"]
            place = optimizer["param_slice_mappings"][1]["2.input_layernorm.weight"]
            groups = optimizer["single_partition_of_fp32_groups"]
            flat = groups[1] if kind == MASTER else optimizer["base_optimizer_state"]["state"][1][kind]
            found.append(flat[place.start : place.start + place.numel].clone())
    return found


@pytest.mark.parametrize("method", ["mean-fp32", "rank0"])
def test_copies_are_equal_after_a_repair_and_the_old_checkpoint_is_kept(run, method):
    checkpoint = _only(run)
    before = {name: entry.sha256 for name, entry in files_of(checkpoint).items()}
    masters, moments = _norm(checkpoint, MASTER), _norm(checkpoint, "exp_avg")
    done = CliRunner().invoke(app, ["checkpoint", "repair", "--run", str(run.run), "--on-drift", method])
    assert done.exit_code == 0, done.output
    rows = dict(line.split("\t") for line in done.stdout.splitlines())
    assert rows[f"master of {NORM}"] == "0.5"
    assert rows[f"exp_avg of {NORM}"] == "0.25"
    assert rows["weights of h.1.mlp.dense_h_to_4h.weight"] == "1"
    assert rows["random number states of rank 1"] == "replaced by the states of rank 0"
    # The reader of training and export refuses copies that differ.
    repaired = Checkpoint(checkpoint)
    state = OptimizerState(repaired)
    parameters = {parameter.name: parameter for parameter in repaired.parameters}
    for kind, copies in ((MASTER, masters), ("exp_avg", moments)):
        expected = copies[0] if method == "rank0" else (copies[0] + copies[1]) / 2
        assert torch.equal(state.part(parameters[NORM], kind), expected)
    for parameter in repaired.parameters:
        weight = repaired.weight(parameter, torch.bfloat16)
        assert torch.equal(weight, state.part(parameter, MASTER).to(torch.bfloat16))
    hashes = [repaired.manifest.files[f"random_rank_{rank:05d}.safetensors"].sha256 for rank in range(2)]
    assert len(set(hashes)) == 1
    (record,) = repaired.manifest.repairs
    assert (record.method, record.tensors[f"master of {NORM}"]) == (method, 0.5)
    kept = run.before_repair / checkpoint.name
    assert {name: entry.sha256 for name, entry in files_of(kept).items()} == before
    assert read_checkpoint(kept).repairs == []
    assert not run.repairing.exists()
    again = CliRunner().invoke(app, ["checkpoint", "repair", "--run", str(run.run), "--on-drift", method])
    assert (again.exit_code, again.stdout) == (0, "")
    assert "are equal; nothing was changed" in again.stderr


def test_a_training_refuses_different_copies_names_the_repair_and_resumes_after_it(run):
    checkpoint = _only(run)
    command = f"bloomery checkpoint repair --run {run.run} --checkpoint {checkpoint.name} --on-drift mean-fp32"
    with pytest.raises(RankError) as refused:
        run_ranks(_load, 2, LAYOUT, run.run)
    assert command in str(refused.value)
    assert CliRunner().invoke(app, command.split()[1:]).exit_code == 0
    assert lacks_reference(read_checkpoint(checkpoint))
    write_word_tokenizer(run)
    export = ExportStage(name="r", model_name="r", export=ExportConfig(), model=LAYOUT.model, licences={})
    with pytest.raises(CheckFailedError, match="repaired, and its reference logits have not been computed since"):
        export_model(export, run, run.export / "r", checkpoint_name=checkpoint.name)
    # The first load adds reference logits. The second load, on another layout, is compared with these logits.
    assert run_ranks(_load, 2, LAYOUT, run.run) == [read_checkpoint(checkpoint).iteration] * 2
    manifest = read_checkpoint(checkpoint)
    assert manifest.files == files_of(checkpoint)
    assert REFERENCE_NAME in manifest.files
    parity = export_model(export, run, run.export / "r", checkpoint_name=checkpoint.name)
    assert parity.max_difference < 1e-5
    other = LAYOUT.model_copy(
        update={"training": stage(data=2, samples=64, checkpoint={"every_iterations": 4}).training}
    )
    run_ranks(_train, 2, other, run.run)
    resumed = read_checkpoint(max(run.checkpoints.glob("step*")))
    assert resumed.iteration > manifest.iteration
    assert resumed.repairs == manifest.repairs, "later checkpoints must record the repair"


def test_an_interrupted_repair_is_completed_and_a_running_training_prevents_one(run, monkeypatch):
    checkpoint = _only(run)
    with lease(run.train):
        done = CliRunner().invoke(app, ["checkpoint", "repair", "--run", str(run.run), "--on-drift", "rank0"])
    assert isinstance(done.exception, TryAgainError)
    assert "is training this run" in str(done.exception)
    monkeypatch.setattr("training.checkpoint.repair_checkpoint.complete_repairs", lambda _paths: [Path()])
    repair_checkpoint(run, checkpoint.name, "rank0")
    # Between the two renames of a repair, no folder has the checkpoint's name.
    run.before_repair.mkdir()
    checkpoint.rename(run.before_repair / checkpoint.name)
    complete_repairs(run)
    assert read_checkpoint(checkpoint).repairs
    assert [path.name for path in run.before_repair.iterdir()] == [checkpoint.name]


def test_a_repair_whose_result_is_not_finite_is_refused_and_changes_nothing(run):
    checkpoint = _only(run)
    with open_saved(checkpoint / OPTIMIZER.format(1)) as state:
        optimizer = state["optimizer_state_dict"]
        start = optimizer["param_slice_mappings"][1]["2.input_layernorm.weight"].start
        optimizer["single_partition_of_fp32_groups"][1][start] = float("nan")
    list_files_again(checkpoint)
    before = list_files(checkpoint)
    with pytest.raises(CheckFailedError, match="is not finite after the repair"):
        repair_checkpoint(run, None, "mean-fp32")
    assert list_files(checkpoint) == before
    assert not run.before_repair.exists()
    assert repair_checkpoint(run, None, "rank0").before is not None
    assert read_checkpoint(checkpoint).repairs[0].tensors[f"master of {NORM}"] is None
