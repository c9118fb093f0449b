"""Test the export of a checkpoint that DeepSpeed wrote on tensor and pipeline ranks: the logits must not change."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from checkpoint_manifests import list_files_again
from fabricated_training import make_run, stage
from safetensors.torch import load_file
from word_tokenizer import write_word_tokenizer

from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.files import optimizer_file
from bloomery.config.delivery import ExportConfig
from bloomery.config.stages import ExportStage
from bloomery.contracts.checkpoint import MANIFEST_NAME
from bloomery.contracts.paths import RunPaths
from export.export_model import export_model

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SEGMENT = "segments/1.json"


def train(*arguments):
    code = "import sys; from bloomery.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Train on four processes. Return the paths of the run and the configuration of its export."""
    paths = RunPaths(tmp_path_factory.mktemp("trained") / "run")
    trained = stage(tensor=2, pipeline=2, samples=32)
    config = make_run(paths.run, trained)
    train(
        *("segment", "--config", str(config), "--run", str(paths.run), "--number", "1"),
        *("--output", str(paths.train / SEGMENT)),
    )
    train("finish", "--run", str(paths.run), "--output", str(paths.finished))
    write_word_tokenizer(paths)
    export = ExportStage(
        name="run",
        model_name="run",
        export=ExportConfig(),
        model=trained.model,
        licences={},
    )
    return paths, export


def test_a_training_on_four_processes_is_exported_with_the_same_logits(exported):
    paths, export = exported
    parity = export_model(export, paths, paths.export / "run")
    assert parity.max_difference < 1e-5
    assert parity.argmax_agreement > 0.99
    weights = load_file(paths.export / "run" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert f"{parity.consumed_tokens:,} tokens" in (paths.export / "run" / "README.md").read_text()


def test_float32_is_the_fp32_master_weights_which_round_to_the_weights(exported):
    paths, export = exported
    export_model(export, paths, paths.export / "run")
    wide = export.model_copy(update={"export": ExportConfig(dtype="float32")})
    parity = export_model(wide, paths, paths.export / "wide")
    assert (parity.dtype, parity.rounded_to) == ("float32", "bfloat16")
    assert parity.max_difference < 1e-5
    short = load_file(paths.export / "run" / "model.safetensors")
    found = load_file(paths.export / "wide" / "model.safetensors")
    assert found.keys() == short.keys()
    assert all(torch.equal(found[name].bfloat16(), tensor) for name, tensor in short.items())
    # After an update, master weights have more digits than bf16 can hold.
    assert not any(torch.equal(found[name], tensor.float()) for name, tensor in short.items() if tensor.dim() == 2)
    assert "fp32 master weights of the training" in (paths.export / "wide" / "README.md").read_text()


def test_master_weights_that_do_not_round_to_the_weights_are_named(exported):
    paths, export = exported
    checkpoint = max(paths.checkpoints.glob("step*"))
    path = checkpoint / optimizer_file(0, 0, 1, 2, bf16=True)
    before = path.read_bytes(), (checkpoint / MANIFEST_NAME).read_bytes()
    state = torch.load(path, weights_only=False)
    state["optimizer_state_dict"]["single_partition_of_fp32_groups"][0][0] += 1
    torch.save(state, path)
    list_files_again(checkpoint)
    try:
        wide = export.model_copy(update={"export": ExportConfig(dtype="float32")})
        with pytest.raises(DriftError, match=r"weights of .* differ from their fp32 master weights"):
            export_model(wide, paths, paths.export / "wrong")
    finally:
        path.write_bytes(before[0])
        (checkpoint / MANIFEST_NAME).write_bytes(before[1])
    assert not (paths.export / "wrong").exists()
