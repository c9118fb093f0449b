"""Test the description of a checkpoint, and how fast it is made."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_manifests import list_files_again
from fabricated_training import make_index, stage
from manifest_before_training import manifest_before_training
from safetensors.torch import save_file
from typer.testing import CliRunner

from bloomery.base.errors import InputError
from bloomery.checkpoint.files import random_file
from bloomery.checkpoint.optimizer_state import GroupSettings, OptimizerSettings
from bloomery.checkpoint.torch_archive import TorchArchive
from bloomery.checkpoint.write_checkpoint import write_checkpoint
from bloomery.cli import app
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import MANIFEST_NAME, mark_damaged, read_checkpoint, write_manifest
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.spec.parameters import parameter_count
from bloomery.spec.placement import Parameter
from training.checkpoint.inspect_checkpoint import inspect_checkpoint
from training.checkpoint.inspection import Drift, Inspection
from training.checkpoint.repair_tensors import open_to_save

ROWS = 512
SETTINGS = OptimizerSettings(
    moments=("exp_avg", "exp_avg_sq"),
    groups={decays: GroupSettings({}, {"step": torch.tensor(5.0)}) for decays in (True, False)},
)


def _read(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
    """Return values that depend on the parameter, the kind of state and the position."""
    dimension = parameter.placement.dimension
    shape = list(parameter.shape)
    if dimension is not None and wanted is not None:
        shape[dimension] = len(wanted)
    seed = [*f"{kind} {parameter.name}".encode(), wanted.start if wanted else 0]
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def _write(folder: Path, configuration: TrainStage) -> Path:
    """Write a checkpoint with files of all kinds. The reference has no content."""
    make_index(folder / "run", 128)
    index = read_index_manifest(RunPaths(folder / "run").index_manifest)
    save_file({"states": torch.arange(8)}, folder / "random")
    (folder / "reference").write_bytes(b"")
    copies = {random_file(rank): folder / "random" for rank in range(configuration.training.parallel.world_size)}
    manifest = manifest_before_training(configuration, index, ROWS, {"deepspeed": "0.19.8"})
    copies["reference.safetensors"] = folder / "reference"
    write_checkpoint(folder / "checkpoint", manifest, _read, SETTINGS, copies=copies)
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("written"), stage(tensor=2, pipeline=2, data=2))


@pytest.fixture
def checkpoint(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the checkpoint that the test may change."""
    shutil.copytree(written, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_layout_position_optimizer_and_tensors_are_described(written: Path) -> None:
    found = inspect_checkpoint(written)
    assert found.is_good
    assert (found.tensor_parallel, found.pipeline_parallel, found.data_parallel) == (2, 2, 2)
    assert (found.stage_layers, found.precision, found.iteration) == ((0, 3, 6), "bf16", 0)
    assert found.optimizer is not None
    assert (found.optimizer.moments, found.optimizer.steps) == (("exp_avg", "exp_avg_sq"), 5.0)
    assert found.parameters == parameter_count(stage().model, ROWS)
    assert found.files == len(read_checkpoint(written).files)
    by_name = {tensor.name: tensor for tensor in found.tensors}
    assert sum(np.prod(tensor.shape) for tensor in found.tensors) == found.parameters
    embedding = by_name["word_embeddings.weight"]
    assert (embedding.shape, embedding.dtype, embedding.split) == ((ROWS, 32), "bfloat16", "vocabulary")
    assert (embedding.layer, embedding.tied_layers) == (0, (5,))
    assert by_name["h.1.mlp.dense_4h_to_h.weight"].split == "row"


def _change(path: Path, change: Any) -> None:
    """Change the state in a checkpoint's file, and make the manifest match it."""
    state = open_to_save(path)
    change(state)
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    list_files_again(path.parent)


def _add(kind: str) -> Any:
    def change(state: Any) -> None:
        optimizer = state["optimizer_state_dict"]
        position = optimizer["param_slice_mappings"][1]["3.input_layernorm.bias"].start
        flats = optimizer["single_partition_of_fp32_groups"]
        flat = flats[1] if kind == "master" else optimizer["base_optimizer_state"]["state"][1][kind]
        flat[position + 31] += 1

    return change


def test_copies_that_differ_are_found(checkpoint: Path) -> None:
    layer, optimizer = "layer_03-model_01-model_states.pt", "bf16_zero_pp_rank_0_mp_rank_03_optim_states.pt"
    _change(checkpoint / layer, lambda state: state["input_layernorm.bias"].__setitem__(31, 9.0))
    # A column of a weight that is split has no copy, so its change is not drift.
    _change(checkpoint / layer, lambda state: state["mlp.dense_h_to_4h.weight"].__setitem__((0, 0), 9.0))
    _change(checkpoint / optimizer, _add("master"))
    _change(checkpoint / optimizer, _add("exp_avg_sq"))
    save_file({"states": torch.arange(1, 9)}, checkpoint / random_file(5))
    list_files_again(checkpoint)
    found = inspect_checkpoint(checkpoint)
    assert found.problems == ()
    assert found.drift == (
        Drift("weights of h.1.input_layernorm.bias", (layer,)),
        Drift("master of h.1.input_layernorm.bias", (optimizer,)),
        Drift("exp_avg_sq of h.1.input_layernorm.bias", (optimizer,)),
        Drift("random number states", (random_file(5),)),
    )


def _problems(checkpoint: Path) -> str:
    found: Inspection = inspect_checkpoint(checkpoint)
    assert not found.is_good
    return "\n".join(found.problems)


def test_missing_damaged_and_unlisted_files_are_problems(checkpoint: Path) -> None:
    (checkpoint / "layer_02-model_00-model_states.pt").unlink()
    (checkpoint / "layer_03-model_00-model_states.pt").write_bytes(b"PK")
    (checkpoint / "notes.txt").write_text("mine")
    optimizer = checkpoint / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    shutil.copyfile(checkpoint / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", optimizer)
    sizes = {name: entry.bytes for name, entry in read_checkpoint(checkpoint).files.items()}
    assert _problems(checkpoint).splitlines() == [
        f"{optimizer.name} has {optimizer.stat().st_size} bytes; expected: {sizes[optimizer.name]}",
        f"{optimizer.name}: the file does not hold the optimizer state of its rank",
        "layer_02-model_00-model_states.pt is missing",
        f"layer_03-model_00-model_states.pt has 2 bytes; expected: {sizes['layer_03-model_00-model_states.pt']}",
        "layer_03-model_00-model_states.pt: the header of the file cannot be read: File is not a zip file",
        "manifest.json does not list notes.txt",
    ]


def test_weights_of_another_shape_or_name_and_missing_entries_are_problems(checkpoint: Path) -> None:
    path = checkpoint / "layer_02-model_00-model_states.pt"
    _change(path, lambda state: state.update({"mlp.dense_h_to_4h.bias": torch.zeros(3)}))
    _change(path, lambda state: state.pop("self_attention.dense.bias"))
    manifest = read_checkpoint(checkpoint)
    files = {name: entry for name, entry in manifest.files.items() if name != "reference.safetensors"}
    (checkpoint / "reference.safetensors").unlink()
    write_manifest(checkpoint, manifest.model_copy(update={"files": files}))
    assert _problems(checkpoint).splitlines() == [
        f"{path.name} has no tensor for self_attention.dense.bias; expected: shape [32]",
        f"{path.name} has shape [3] for mlp.dense_h_to_4h.bias; expected: shape [64]",
        "the checkpoint's manifest.json does not list reference.safetensors",
    ]


@pytest.mark.parametrize("change", [{"tensor_parallel": 3}, {"data_parallel": 90_000}, {"stage_layers": [0, 6]}])
def test_a_layout_that_does_not_fit_the_network_is_refused(checkpoint: Path, change: dict[str, Any]) -> None:
    write_manifest(checkpoint, read_checkpoint(checkpoint).model_copy(update=change))
    with pytest.raises(InputError, match="does not fit the network or the 31 files"):
        inspect_checkpoint(checkpoint)


def test_the_command_prints_tables_or_json_and_fails_for_a_damaged_checkpoint(checkpoint: Path) -> None:
    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["checkpoint", "inspect", str(checkpoint), *options])

    shown = run()
    assert (shown.exit_code, shown.stderr) == (0, "")
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert ["layout", "2 tensor x 2 pipeline x 2 data ranks"] in rows
    assert ["optimizer state", "fp32 master weights, exp_avg, exp_avg_sq after 5 updates"] in rows
    assert ["h.*.mlp.dense_h_to_4h.weight", "2", "128 x 32", "bfloat16", "column"] in rows
    facts = json.loads(run("--json").stdout)
    assert (facts["good"], facts["optimizer"]["steps"], len(facts["tensors"])) == (True, 5.0, 29)
    mark_damaged(checkpoint, "the loss is wrong")
    refused = run()
    assert refused.exit_code == 1
    assert "the checkpoint is marked as damaged: the loss is wrong" in refused.stderr
    assert json.loads(run("--json").stdout)["damaged"] == "the loss is wrong"
    (checkpoint / MANIFEST_NAME).unlink()
    assert isinstance(run().exception, InputError)


@pytest.mark.parametrize("function", ["__init__", "read"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_file_that_a_training_removes_meanwhile_is_missing(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, function: str, whole: bool
) -> None:
    original = getattr(TorchArchive, function)
    name = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"

    def remove_first(archive: TorchArchive, argument: Any) -> Any:
        path = argument if isinstance(argument, Path) else archive.path
        if path.name == name:
            if whole:
                shutil.rmtree(checkpoint, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return original(archive, argument)

    monkeypatch.setattr(TorchArchive, function, remove_first)
    found = inspect_checkpoint(checkpoint)
    assert f"{name} is missing" in found.problems
    assert len(found.problems) == 1 or whole
    assert not found.is_good


def test_a_file_that_is_removed_while_the_folder_is_listed_is_missing(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.stat

    def stat(path: Path, **options: Any) -> Any:
        if path.name == "reference.safetensors":
            path.unlink(missing_ok=True)
        return original(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert inspect_checkpoint(checkpoint).problems == ("reference.safetensors is missing",)


@pytest.mark.slow
def test_a_checkpoint_of_1000_files_is_described_in_less_than_2_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = stage(tensor=16, pipeline=4, data=2).model_dump(mode="json")
    raw["model"] |= {"layers": 44, "hidden_size": 16, "heads": 16}
    # The files of this test need not survive a power failure.
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    checkpoint = _write(tmp_path, TrainStage.model_validate(raw))
    tries = []
    for _ in range(3):
        start = time.perf_counter()
        found = inspect_checkpoint(checkpoint)
        tries.append(time.perf_counter() - start)
    assert found.files >= 1000
    assert found.is_good
    print(f"{found.files} files: {min(tries):.2f} s")
    assert min(tries) < 2
