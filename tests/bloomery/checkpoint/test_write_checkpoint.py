"""Test that a checkpoint of any layout is written in one process, and that its tensors are those of the source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from fabricated_training import make_index, stage
from manifest_before_training import manifest_before_training
from random_checkpoint import ADAM, ROWS, random_read, random_whole

from bloomery.base.errors import CheckFailedError, InputError, NoSpaceError, TryAgainError
from bloomery.base.folders import only_writer
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.checkpoint.write_checkpoint import with_layout, write_checkpoint
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import saved_stage
from bloomery.spec.placement import Parameter
from training.checkpoint.repair_tensors import open_to_save


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Any:
    run = tmp_path_factory.mktemp("index")
    make_index(run, 128)
    return read_index_manifest(RunPaths(run).index_manifest)


def _manifest(index: Any, configuration: TrainStage) -> CheckpointManifest:
    return manifest_before_training(configuration, index, ROWS, {"deepspeed": "0.19.8"})


def _wide(layers: int = 2, **parallel: int) -> TrainStage:
    """Return a configuration with 48 heads, which 3 and 16 tensor ranks can share."""
    raw = stage(**parallel).model_dump(mode="json")
    raw["model"] |= {"layers": layers, "hidden_size": 48, "heads": 48}
    return TrainStage.model_validate(raw)


def _check(folder: Path, moments: bool = True) -> None:
    """Check that every tensor of the checkpoint equals the source, bit for bit."""
    checkpoint = Checkpoint(folder)
    state = OptimizerState(checkpoint)
    assert state.kinds == ((MASTER, "exp_avg", "exp_avg_sq") if moments else (MASTER,))
    for parameter in checkpoint.parameters:
        assert torch.equal(checkpoint.weight(parameter, torch.bfloat16), random_whole(parameter, MASTER).bfloat16())
        for kind in state.kinds:
            found = state.part(parameter, kind)
            assert torch.equal(found, random_whole(parameter, kind)), f"{kind} of {parameter.name}"


@pytest.mark.parametrize(
    "configuration",
    [_wide(tensor=2, pipeline=2, data=3), _wide(tensor=3), _wide(tensor=16, data=2), _wide(layers=101, pipeline=7)],
    ids=["tp2-pp2-dp3", "tp3", "tp16-dp2", "pp7-101-layers"],
)
def test_a_checkpoint_of_any_layout_has_the_tensors_of_its_source(
    tmp_path: Path, index: Any, configuration: TrainStage
) -> None:
    written = write_checkpoint(tmp_path / "step00000000", _manifest(index, configuration), random_read, ADAM)
    assert read_checkpoint(tmp_path / "step00000000") == written
    assert list_files(tmp_path / "step00000000", omit={"manifest.json"}) == written.files
    _check(tmp_path / "step00000000")


def test_a_checkpoint_written_on_another_layout_and_back_has_the_same_bytes(tmp_path: Path, index: Any) -> None:
    first = write_checkpoint(tmp_path / "a", _manifest(index, stage()), random_read, ADAM)
    for source, target, configuration in (("a", "b", stage(tensor=2, pipeline=2, data=3)), ("b", "c", stage())):
        checkpoint = Checkpoint(tmp_path / source)
        state = OptimizerState(checkpoint)
        changed = with_layout(checkpoint.manifest, configuration)
        last = write_checkpoint(tmp_path / target, changed, state.part, state.settings)
    assert last == first


def test_a_checkpoint_before_the_first_update_has_fp32_weights_and_no_moments(tmp_path: Path, index: Any) -> None:
    write_checkpoint(tmp_path / "x", _manifest(index, stage(tensor=2)), random_read)
    _check(tmp_path / "x", moments=False)
    assert OptimizerState(Checkpoint(tmp_path / "x")).step is None
    saved = open_to_save(tmp_path / "x" / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")["optimizer_state_dict"]
    assert [group["weight_decay"] for group in saved["base_optimizer_state"]["param_groups"]] == [0.1, 0.0]


def test_further_files_are_copied_and_listed(tmp_path: Path, index: Any) -> None:
    (tmp_path / "reference").write_bytes(b"logits")
    copies = {"reference.safetensors": tmp_path / "reference"}
    written = write_checkpoint(tmp_path / "x", _manifest(index, stage()), random_read, copies=copies)
    assert (tmp_path / "x" / "reference.safetensors").read_bytes() == b"logits"
    assert written.files["reference.safetensors"].bytes == len(b"logits")


def test_an_interrupted_write_leaves_nothing_and_the_same_call_can_be_repeated(tmp_path: Path, index: Any) -> None:
    def fail(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
        if parameter.layer == 3:
            raise KeyboardInterrupt
        return random_read(parameter, kind, wanted)

    manifest = _manifest(index, stage())
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(tmp_path / "x", manifest, fail, ADAM)
    assert list(tmp_path.iterdir()) == []
    write_checkpoint(tmp_path / "x", manifest, random_read, ADAM)
    with pytest.raises(InputError, match="exists already"):
        write_checkpoint(tmp_path / "x", manifest, random_read, ADAM)
    _check(tmp_path / "x")


def test_a_killed_write_leaves_nothing_at_the_target_and_the_next_one_removes_its_files(
    tmp_path: Path, index: Any
) -> None:
    def die(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
        if parameter.layer == 3:
            os._exit(9)
        return random_read(parameter, kind, wanted)

    manifest = _manifest(index, stage())
    child = os.fork()
    if child == 0:
        write_checkpoint(tmp_path / "x", manifest, die, ADAM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (tmp_path / "x").exists()
    assert list(tmp_path.iterdir()), "the process was killed before it wrote a file"
    write_checkpoint(tmp_path / "x", manifest, random_read, ADAM)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    _check(tmp_path / "x")


def test_values_that_are_not_finite_and_impossible_layouts_are_refused(tmp_path: Path, index: Any) -> None:
    def broken(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
        found = random_read(parameter, kind, wanted).clone()
        if (parameter.name, kind) == ("h.1.mlp.dense_h_to_4h.bias", "exp_avg"):
            found[-1] = float("nan")
        return found

    with pytest.raises(CheckFailedError, match=r"exp_avg of h\.1\.mlp\.dense_h_to_4h\.bias is not finite"):
        write_checkpoint(tmp_path / "x", _manifest(index, stage()), broken, ADAM)
    with pytest.raises(InputError, match=r"cannot be divided among 5 tensor ranks; expected: a divisor"):
        write_checkpoint(tmp_path / "x", _manifest(index, stage(tensor=5)), random_read, ADAM)
    assert not (tmp_path / "x").exists()


def test_a_full_disk_and_a_second_writer_are_reported_before_any_file_is_written(
    tmp_path: Path, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = _manifest(index, stage())
    with only_writer(tmp_path / ".x.lock", tmp_path / "x"), pytest.raises(TryAgainError, match="another process"):
        write_checkpoint(tmp_path / "x", manifest, random_read, ADAM)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1000}))
    with pytest.raises(NoSpaceError, match=r"the checkpoint needs .*, but only 1000 B are free"):
        write_checkpoint(tmp_path / "x", manifest, random_read, ADAM)
    assert list(tmp_path.iterdir()) == []


def test_the_layout_in_the_manifest_is_that_of_the_configuration(index: Any) -> None:
    manifest = with_layout(_manifest(index, stage()), stage(tensor=2, pipeline=2, data=3))
    layout = (manifest.tensor_parallel, manifest.pipeline_parallel, manifest.data_parallel, manifest.stage_layers)
    assert layout == (2, 2, 3, [0, 3, 6])
    assert saved_stage(manifest).training.parallel.data == 3
